import { LogUnavailable, NoLog } from '#event-store';
import type { Fault, VerifyProgress, VerifySummary } from '#proof';
import { NoExport } from '#proof';
import type { Progress } from '../progress.js';
import { showProgress } from '../progress.js';
import { Failure } from '../words.js';
import { exportWords, verifyExportAt } from './export-files.js';
import { checkedWords, reportFaults, sumLines, summaryJson } from './report.js';
import type { OutsideWitnesses } from './witnesses.js';

/** How faults and sums are written. */
export type Form = 'words' | 'json';

/** Takes faults and progress. */
export interface Ears {
  readonly onFault: (fault: Fault) => void;
  readonly onProgress: (progress: VerifyProgress) => void;
}

/** Runs a verification; answers with 2, and says why on standard error, where it could not be done. */
export const exitingWith = async (name: string, work: () => Promise<number>): Promise<number> => {
  try {
    return await work();
  } catch (error) {
    const words = wordsOf(error);
    if (words === null) throw error;
    console.error(`${name}: ${words}`);
    return 2;
  }
};

const wordsOf = (error: unknown): string | null => {
  if (error instanceof Failure) return error.message;
  return error instanceof NoLog || error instanceof NoExport || error instanceof LogUnavailable
    ? `${error.message}.`
    : null;
};

/** Verifies a log and writes what is found; answers with the exit code. */
export const tellLog = async (form: Form, work: (ears: Ears) => Promise<VerifySummary>): Promise<number> => {
  const faults = reportFaults((line) => console.log(line), form);
  const progress = progressOf(form);
  const summary = await work({ onFault: (fault) => faults.add(fault), onProgress: progress.update }).finally(() =>
    progress.stop(),
  );
  faults.end();
  write(form === 'json' ? [summaryJson(summary)] : sumLines(summary, checkedWords(summary)));
  return summary.ok ? 0 : 1;
};

/** Verifies an export and writes what is found; answers with the exit code. */
export const tellExport = async (path: string, witnesses: OutsideWitnesses, form: Form): Promise<number> => {
  const faults = reportFaults((line) => console.log(line), form);
  const progress = showProgress({ unit: 'events', show: form === 'json' ? 'none' : 'auto' });
  const summary = await verifyExportAt(
    path,
    witnesses,
    (fault) => faults.add(fault),
    (done, of) => progress.update(done, of),
  ).finally(() => progress.stop());
  faults.end();
  write(form === 'json' ? [JSON.stringify({ kind: 'summary', ...summary })] : sumLines(summary, exportWords(summary)));
  if (!summary.ok) return 1;
  if (summary.events === 0 || summary.proven > 0) return 0;
  console.error(
    'Not one event of this export is proven: anybody could have written it. Export again once it is sealed.',
  );
  return 2;
};

const write = (lines: readonly string[]): void => {
  for (const line of lines) console.log(line);
};

/** One bar for each part of the work. */
const progressOf = (form: Form): { readonly update: (progress: VerifyProgress) => void; readonly stop: () => void } => {
  let doing: VerifyProgress['doing'] | null = null;
  let shown: Progress | null = null;
  let saidAt = 0;
  return {
    update: (progress) => {
      const now = performance.now();
      if (doing === progress.doing && now - saidAt < 100) return;
      saidAt = now;
      if (doing !== progress.doing) {
        shown?.stop();
        shown = showProgress({ unit: progress.doing, show: form === 'json' ? 'none' : 'auto' });
        doing = progress.doing;
      }
      shown?.update(progress.done, Math.max(progress.of ?? progress.done, progress.done));
    },
    stop: () => shown?.stop(),
  };
};
