import { count } from "@wavehouse/sdk";
import { useLive } from "@wavehouse/sdk/react";
import { useEffect, useState } from "react";

import { Minutes } from "./Minutes.js";
import { clicks, wavehouse } from "./wavehouse.js";

const pages = ["/", "/docs", "/pricing"];

const perPage = wavehouse.from("clicks").select("page", count().as("views")).groupBy("page").orderBy("views", "desc").limit(10);
const perMinute = wavehouse
  .from("clicks")
  .select(count().as("views"))
  .timeRange("at", "15m")
  .timeBucket("at", "1m", "minute")
  .orderBy("minute");
const latest = wavehouse.from("clicks").select("id", "page", "at").orderBy("at", "desc").limit(8);

export function App() {
  const counts = useLive(perPage);
  const minutes = useLive(perMinute);
  const last = useLive(latest, { key: "id" });
  return (
    <>
      <header>
        <h1>Clicks</h1>
        <output id="status" data-status={counts.status}>
          {counts.error?.message ?? counts.status}
        </output>
      </header>
      <Buttons />
      <section>
        <h2>The last fifteen minutes</h2>
        <Minutes points={minutes.rows.map(({ minute, views }) => ({ at: Date.parse(minute) / 1000, views: Number(views) }))} />
      </section>
      <section>
        <h2>Pages</h2>
        <table id="pages">
          <tbody>
            {counts.rows.map(({ page, views }) => (
              <tr key={page}>
                <td>{page}</td>
                <td>{String(views)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <section>
        <h2>Latest</h2>
        <ol id="latest">
          {last.rows.map(({ id, page, at }) => (
            <li key={id}>
              <time dateTime={at}>{new Date(at).toLocaleTimeString()}</time> {page}
            </li>
          ))}
        </ol>
      </section>
    </>
  );
}

function Buttons() {
  const waiting = useWaiting();
  return (
    <nav>
      {pages.map((page) => (
        <button key={page} data-page={page} onClick={() => clicks.add({ id: crypto.randomUUID(), page, at: new Date() })}>
          {page}
        </button>
      ))}
      <output id="waiting">{waiting}</output> not sent yet
    </nav>
  );
}

/** How many clicks wait for the server. */
function useWaiting(): number {
  const [waiting, setWaiting] = useState(clicks.size);
  useEffect(() => {
    const timer = setInterval(() => setWaiting(clicks.size), 200);
    return () => clearInterval(timer);
  }, []);
  return waiting;
}
