import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { CreateExportHandler } from './create-export.js';
import { ExportsController } from './exports.controller.js';

/** Exports of the record. The worker's part is `ExportMaker`. */
@Module({ imports: [AuditModule], controllers: [ExportsController], providers: [CreateExportHandler] })
export class ExportsModule {}
