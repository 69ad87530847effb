import all, { suite } from './jest.config.js';

/** kafka: the program and its parts with a real Apache Kafka broker, which needs Java; so `npm test` leaves it out. */
export default {
  ...all,
  testTimeout: 180_000,
  // A broker takes a core for itself while it starts.
  maxWorkers: 1,
  projects: [suite('kafka', ['<rootDir>/{apps,libs,test}/**/*.kafka.spec.ts'])],
};
