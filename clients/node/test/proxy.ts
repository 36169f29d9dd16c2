// A faulty network between client and gateway.
import { once } from "node:events";
import net from "node:net";
import { pause } from "./waits.js";

/**
 * What a proxy does to a gateway's replies: it holds them back; sends the first bytes of each, and no more; sends them
 * byte by byte; or resets all connections, and accepts no others.
 */
export type Fault = "silent" | "half" | "stutter" | "gone";

/** They end within a frame's header, or after it. */
const HALF_BYTES = 7;
/** Short enough to renew any limit of a single wait. */
const STUTTER_PAUSE_MS = 100;

export class Proxy {
  /** Of replies from now on. A connection that it has hit stays as it is. */
  fault: Fault | undefined;
  connections = 0;
  /** Requests whose replies it hasn't passed on, on connections that are open. */
  inFlight = 0;
  private readonly sockets = new Set<net.Socket>();
  private constructor(private readonly server: net.Server) {}

  static async to(port: number): Promise<Proxy> {
    const server = net.createServer();
    const proxy = new Proxy(server);
    server.on("connection", (client) => proxy.connect(client, net.connect(port, "127.0.0.1")));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get address(): string {
    return `127.0.0.1:${(this.server.address() as net.AddressInfo).port}`;
  }

  strike(fault: Fault): void {
    this.fault = fault;
    if (fault === "gone") this.close();
  }

  async cutNow(): Promise<void> {
    const cut = [...this.sockets].filter((socket) => !socket.closed);
    this.sockets.clear();
    await Promise.all(cut.map((socket) => once(socket.destroy(), "close")));
  }

  close(): void {
    this.server.close();
    void this.cutNow();
  }

  private connect(client: net.Socket, gateway: net.Socket): void {
    let isHeld = false;
    let inFlight = 0;
    const [requests, replies] = [new Frames(), new Frames()];
    const count = (change: number): void => {
      inFlight += change;
      this.inFlight += change;
    };
    this.connections++;
    if (this.fault === "gone") {
      // Accepted before the server was closed.
      client.destroy();
      gateway.on("error", () => {}).destroy();
      return;
    }
    for (const socket of [client, gateway]) {
      this.sockets.add(socket);
      socket.on("error", () => {}).on("close", () => (client.destroy(), gateway.destroy()));
    }
    client.on("close", () => count(-inFlight));
    client.on("data", (data) => {
      count(requests.endsIn(data));
      gateway.write(data);
    });
    gateway.on("data", (data) => {
      if (isHeld) return;
      if (this.fault === undefined) {
        count(-replies.endsIn(data));
        client.write(data);
      } else if (this.fault === "stutter") {
        gateway.pause();
        void stutter(data, client).then(() => gateway.resume());
      } else {
        isHeld = true;
        if (this.fault === "half") client.write(data.subarray(0, HALF_BYTES));
      }
    });
  }
}

/** Finds the ends of frames in a stream of bytes. */
class Frames {
  private header: number[] = [];
  private left = 0;

  endsIn(data: Buffer): number {
    let ended = 0;
    for (let at = 0; at < data.length; ) {
      if (this.left === 0) {
        this.header.push(data[at++] as number);
        if (this.header.length === 4) this.left = Buffer.from(this.header.splice(0)).readUInt32BE();
        continue;
      }
      const count = Math.min(this.left, data.length - at);
      at += count;
      this.left -= count;
      if (this.left === 0) ended++;
    }
    return ended;
  }
}

/** Sends a byte at a time until the socket closes. */
export async function stutter(data: Buffer, socket: net.Socket): Promise<void> {
  for (let at = 0; at < data.length && !socket.destroyed; at++) {
    socket.write(data.subarray(at, at + 1));
    await pause("the pace of a stutter", STUTTER_PAUSE_MS);
  }
}
