import {
  createContext,
  createElement,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";

import type { QueryDocument } from "./document.js";
import type { AnyDatabase, DatabaseTypes, InsertOf, TableName } from "./schema.js";
import type { AnswerMeta, InsertOptions, InsertResult, LiveOptions, LiveQuery, LiveState, LiveStatus, WaveHouse, WaveHouseError } from "./index.js";

type Client = WaveHouse<DatabaseTypes>;

const Context = createContext<Client | undefined>(undefined);

/** Gives the hooks below it their client. */
export function WaveHouseProvider<DB extends DatabaseTypes>(props: { client: WaveHouse<DB>; children?: ReactNode }): ReactNode {
  return createElement(Context.Provider, { value: props.client as unknown as Client }, props.children);
}

/** The client of the nearest provider. */
export function useWaveHouse<DB extends DatabaseTypes = AnyDatabase>(): WaveHouse<DB> {
  const client = useContext(Context);
  if (client === undefined) {
    throw new Error("there is no WaveHouseProvider above this component");
  }
  return client as unknown as WaveHouse<DB>;
}

type Rows<Q> = Q extends { rows(): Promise<(infer T)[]> } ? T : Record<string, unknown>;
/** A builder, or a table and a document. */
type AnyQuery = { table: string; document: Readonly<QueryDocument> };

/** Text by which equal queries are told, since a component makes a new one each time. */
const named = (query: AnyQuery | null | undefined) => query && JSON.stringify([query.table, query.document]);

export interface QueryState<T> {
  /** The rows; of the query before, while a new one is asked for the first time. */
  rows: readonly T[] | undefined;
  loading: boolean;
  error: WaveHouseError | undefined;
  /** What the server says of the rows: whether they were cached or cut, and to who may know it, what they cost. */
  meta: AnswerMeta | undefined;
  /** Asks again. */
  refetch(): void;
}

/** Asks a query when it changes. `null` asks nothing. */
export function useQuery<Q extends AnyQuery>(query: Q | null | undefined): QueryState<Rows<Q>> {
  const client = useWaveHouse();
  const name = named(query);
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState<{ of?: string; rows?: readonly Rows<Q>[]; meta?: AnswerMeta; error?: WaveHouseError }>({});
  const current = useRef(query);
  current.current = query;
  useEffect(() => {
    const asked = current.current;
    if (!asked) {
      return;
    }
    const abort = new AbortController();
    const of = `${turn} ${name}`;
    let meta: AnswerMeta = { cached: false, timing: {} };
    (client.query(asked.table, asked.document, { signal: abort.signal, onMeta: (said) => (meta = said) }) as Promise<Rows<Q>[]>).then(
      (rows) => !abort.signal.aborted && setState({ of, rows, meta }),
      (error: WaveHouseError) => !abort.signal.aborted && setState((before) => ({ ...before, of, error })),
    );
    return () => abort.abort();
  }, [client, name, turn]);
  const refetch = useCallback(() => setTurn((n) => n + 1), []);
  return { rows: state.rows, loading: !!name && state.of !== `${turn} ${name}`, error: state.error, meta: state.meta, refetch };
}

const waiting: LiveState<never> = { status: "connecting", rows: [] };
const none = () => () => undefined;

/** The rows of a query as they change. With `suspense` it waits for the first answer, and throws what closes the query. */
export function useLive<Q extends AnyQuery>(query: Q | null | undefined, options: LiveOptions & { suspense?: boolean } = {}): LiveState<Rows<Q>> {
  const client = useWaveHouse();
  const name = named(query);
  const { key, refreshMs, tabs, suspense } = options;
  const live = useMemo(
    () => (query ? (client.live(query, { key, refreshMs, tabs }) as LiveQuery<unknown> as LiveQuery<Rows<Q>>) : undefined),
    // The name stands for the query.
    [client, name, String(key), refreshMs, tabs],
  );
  const subscribe = useCallback((changed: () => void) => live?.subscribe(changed) ?? none(), [live]);
  const state = useSyncExternalStore(
    subscribe,
    () => live?.state ?? (waiting as LiveState<Rows<Q>>),
    () => waiting as LiveState<Rows<Q>>,
  );
  if (suspense && live && typeof window !== "undefined") {
    if (state.status === "closed" && state.error) {
      throw state.error;
    }
    if (state.status === "connecting" && state.rows.length === 0) {
      throw settled(live);
    }
  }
  return state;
}

/** Resolves when a live query shows something; it runs meanwhile, though nothing is mounted yet. */
function settled(live: { state: LiveState<unknown>; subscribe(listener: () => void): () => void }): Promise<void> {
  return new Promise((done) => {
    const leave = live.subscribe(() => {
      if (live.state.status !== "connecting") {
        leave();
        done();
      }
    });
  });
}

/** The status alone, for a component that shows how the connection is. */
export function useStatus(query: AnyQuery | null | undefined, options?: LiveOptions): LiveStatus {
  return useLive(query, options).status;
}

export interface InsertState<R> {
  /** Posts rows, as the client's insert does. */
  insert(rows: R | readonly R[], options?: InsertOptions): Promise<InsertResult>;
  pending: boolean;
  result: InsertResult | undefined;
  error: WaveHouseError | undefined;
}

/** Inserts into a table, and what became of the last insert. */
export function useInsert<DB extends DatabaseTypes = AnyDatabase, T extends TableName<DB> = TableName<DB>>(table: T): InsertState<InsertOf<DB, T>> {
  const client = useWaveHouse<DB>();
  const [state, setState] = useState<{ pending: number; result?: InsertResult; error?: WaveHouseError }>({ pending: 0 });
  const insert = useCallback(
    async (rows: InsertOf<DB, T> | readonly InsertOf<DB, T>[], options?: InsertOptions) => {
      setState(({ pending }) => ({ pending: pending + 1 }));
      try {
        const result = await client.insert(table, rows, options);
        setState(({ pending }) => ({ pending: pending - 1, result }));
        return result;
      } catch (cause) {
        const error = cause as WaveHouseError;
        setState(({ pending }) => ({ pending: pending - 1, error }));
        throw error;
      }
    },
    [client, table],
  );
  return { insert, pending: state.pending > 0, result: state.result, error: state.error };
}
