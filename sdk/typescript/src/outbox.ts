/** A batch as it is kept until it is stored. */
export interface Parcel {
  /** Its idempotency key. */
  key: string;
  /** NDJSON. */
  body: Uint8Array<ArrayBuffer>;
  /** Its rows. */
  count: number;
  /** When it was made, milliseconds since 1970. */
  at: number;
  /** Whether it was sent, perhaps without an answer. */
  tried: boolean;
}

/** Batches in IndexedDB, in the order in which they were made. */
export interface Outbox {
  all(): Promise<Parcel[]>;
  put(parcel: Parcel): Promise<void>;
  delete(key: string): Promise<void>;
}

/** Opens the queue of a name; pages of one origin share it, and a key is sent once whoever sends it. */
export async function open(name: string): Promise<Outbox> {
  const request = indexedDB.open("wavehouse", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("parcels", { keyPath: "key" }).createIndex("name", "name");
  const database = await settled(request);
  const parcels = (mode: IDBTransactionMode) => database.transaction("parcels", mode, { durability: "strict" }).objectStore("parcels");
  return {
    async all() {
      const found = await settled<Parcel[]>(parcels("readonly").index("name").getAll(name));
      return found.sort((a, b) => a.at - b.at);
    },
    async put({ key, body, count, at, tried }) {
      await settled(parcels("readwrite").put({ name, key, body, count, at, tried }));
    },
    async delete(key) {
      await settled(parcels("readwrite").delete(key));
    },
  };
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
}
