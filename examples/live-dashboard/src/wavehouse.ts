import { WaveHouse } from "@wavehouse/sdk";

import type { Database } from "./database.js";

/** The client of the page. It asks for a token when it has none, and before the one it has runs out. */
export const wavehouse = new WaveHouse<Database>({
  url: "/",
  token: async () => {
    const answer = await fetch("/token");
    return answer.ok ? answer.text() : "";
  },
});

/** What is clicked waits here while there is no network, over reloads of the page too. */
export const clicks = wavehouse.batcher("clicks", {
  maxAgeMs: 200,
  offline: true,
  onDrop: ({ rows, reason }) => console.warn(`${rows.length} clicks are lost: ${reason}`),
});
