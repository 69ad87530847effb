import type { INestApplication } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { describeProblems } from './described-problems.js';

/** The API as its code says it (OpenAPI 3). */
export const describeApi = (app: INestApplication): OpenAPIObject => {
  const about = new DocumentBuilder()
    .setTitle('Hookledger')
    .setDescription('Runs the hook chains of AI agents, decides, and keeps the record.')
    .setVersion('1')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key: Authorization: Bearer KEY.' })
    .build();
  const document = SwaggerModule.createDocument(app, about, {
    operationIdFactory: (controller, method) => `${controller}_${method}`,
  });
  return describeProblems(document);
};

/** Serves it at `/openapi.json`, to be browsed at `/docs`. */
export const documentApi = (app: INestApplication): void => {
  SwaggerModule.setup('docs', app, () => describeApi(app), { jsonDocumentUrl: 'openapi.json', raw: ['json'] });
};
