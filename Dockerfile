# The program with its dependencies; Postgres and Kafka are other containers (docker-compose.yml).
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm run build

# What it needs to run, and none of what it was built with.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM node:24-bookworm-slim
# unshare, setpriv and prlimit are what the sandbox is hardened with.
RUN apt-get update && apt-get install -y --no-install-recommends util-linux && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json LICENSE ./
COPY bin bin
# It owns its data folder, and nothing of the program.
RUN mkdir -p /var/lib/hookledger && chown node:node /var/lib/hookledger
USER node
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 HOOKLEDGER_DATA=/var/lib/hookledger
VOLUME /var/lib/hookledger
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=40s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:3000/health/ready').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# As the first process it must pass signals on and reap: run it with an init (docker run --init, compose: init: true).
CMD ["node", "--max-semi-space-size=32", "dist/apps/server/src/main.js"]
