// Whole files.
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as local from "node:path";
import { posix } from "node:path";
import type { Client } from "./client.js";
import { isKind, StraitError } from "./errors.js";
import { methods } from "./messages.js";
import { CHUNK_BYTES } from "./reader.js";

// A set-id bit belongs only to the original.
const PERMISSION_BITS = 0o777;

export interface CopyOptions {
  /** Replace an existing file. */
  overwrite?: boolean;
  /** Called with the bytes copied so far, and in all. */
  progress?: (done: number, total: number) => void;
}

const temporaryName = (prefix: string): string => prefix + randomBytes(8).toString("hex");

export async function get(client: Client, source: string, target: string, options: CopyOptions): Promise<number> {
  const info = await client.stat(source);
  const reader = await client.open(source);
  const { length } = reader;
  const temporary = local.join(local.dirname(target), temporaryName(".strait-get-"));
  try {
    if (!options.overwrite && (await exists(target))) throw taken(target);
    // The system applies the umask.
    const file = await fs.open(temporary, "wx", info.permission & PERMISSION_BITS);
    let copied = 0;
    try {
      for await (const part of reader) {
        await file.writeFile(part); // all of it: `write` may take a part, as on a disk that fills up
        copied += part.length;
        options.progress?.(copied, Math.max(copied, reader.length));
      }
    } finally {
      await file.close();
    }
    if (copied < length) throw new StraitError("Busy", "the file became shorter while it was read", source);
    await appear(temporary, target, options.overwrite ?? false);
    return copied;
  } catch (error) {
    await fs.rm(temporary, { force: true });
    throw error;
  } finally {
    await reader.close();
  }
}

async function exists(target: string): Promise<boolean> {
  try {
    await fs.lstat(target);
    return true;
  } catch {
    return false;
  }
}

function taken(path: string): StraitError {
  return new StraitError("AlreadyExists", "the file is there already", path);
}

async function appear(temporary: string, target: string, overwrite: boolean): Promise<void> {
  if (overwrite) return fs.rename(temporary, target);
  try {
    // A rename replaces an existing file, a link doesn't.
    await fs.link(temporary, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST" || (await exists(target))) throw taken(target);
    return fs.rename(temporary, target); // a file system without links
  }
  await fs.unlink(temporary);
}

export async function put(client: Client, source: string, path: string, options: CopyOptions): Promise<number> {
  const file = await fs.open(source, "r");
  try {
    const status = await file.stat();
    const target = await targetOf(client, source, path, options.overwrite ?? false);
    const temporary = posix.join(posix.dirname(target), temporaryName(".strait-put-"));
    try {
      const permission = status.mode & PERMISSION_BITS & ~process.umask();
      const copied = await fill(client, file, temporary, { permission, total: status.size }, options);
      await rename(client, temporary, target, options.overwrite ?? false);
      return copied;
    } catch (error) {
      await client.session.tidy(methods.removePath, { path: temporary, recursive: false });
      throw named(error, temporary, target);
    }
  } finally {
    await file.close();
  }
}

/** The path that the local file gets: it is free, or may be replaced. */
async function targetOf(client: Client, source: string, path: string, overwrite: boolean): Promise<string> {
  let target = path;
  let there = await statOrNone(client, target);
  if (there?.isDirectory) {
    target = posix.join(target, local.basename(source));
    there = await statOrNone(client, target);
  }
  if (there === undefined) return target;
  if (!overwrite) throw new StraitError("AlreadyExists", "the path is taken", target);
  if (there.isDirectory) throw new StraitError("IsADirectory", "the target is a directory", target);
  return target;
}

async function statOrNone(client: Client, path: string): Promise<{ isDirectory: boolean } | undefined> {
  try {
    return await client.stat(path);
  } catch (error) {
    if (isKind(error, "NotFound")) return undefined;
    throw error;
  }
}

async function fill(
  client: Client,
  file: fs.FileHandle,
  temporary: string,
  { permission, total }: { permission: number; total: number },
  options: CopyOptions,
): Promise<number> {
  const writer = await client.create(temporary, { permission });
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    let copied = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length);
      if (bytesRead === 0) break;
      await writer.write(buffer.subarray(0, bytesRead));
      copied += bytesRead;
      options.progress?.(copied, Math.max(copied, total));
    }
    await writer.close();
    return copied;
  } catch (error) {
    await writer.abandon();
    // In any outcome, no part of it is visible under the target's name.
    if (isKind(error, "OutcomeUnknown")) throw new StraitError("Unavailable", error.reason, temporary);
    throw error;
  }
}

async function rename(client: Client, temporary: string, target: string, replace: boolean): Promise<void> {
  if (replace && !client.store.capabilities.has("rename_replace")) {
    if (await client.exists(target)) await client.remove(target);
    return client.rename(temporary, target);
  }
  return client.rename(temporary, target, { replace });
}

/** Names the path that was asked for: nobody knows the temporary one. */
function named(error: unknown, temporary: string, target: string): unknown {
  if (!(error instanceof StraitError) || error.path !== temporary) return error;
  return new StraitError(error.kind, error.reason, target, error.retrySafe, error);
}
