/** Uses the client against a running server, and returns what it saw. */
export async function scenes({ WaveHouse, WaveHouseError }, url) {
  const client = new WaveHouse({ url });

  const seen = [];
  const abort = new AbortController();
  const watching = (async () => {
    for await (const event of client.stream("pages", { signal: abort.signal })) {
      if (event.type === "row") seen.push(event.row.event_id);
      if (seen.includes("s3")) break;
    }
  })();

  // The stream is open once a probe row, posted until it is seen, arrives.
  const rows = [
    { event_id: "s1", page: "/1" },
    { event_id: "s2", page: "/2", n: "not a number" },
    { event_id: "s3", page: "/3" },
  ];
  while (seen.length === 0) {
    await client.insert("pages", { event_id: "probe", page: "/probe" });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const result = await client.insert("pages", rows);
  await watching;
  abort.abort();

  let stored = [];
  const deadline = Date.now() + 60_000;
  while (stored.length < 2 && Date.now() < deadline) {
    stored = await client.query("pages", {
      columns: ["event_id"],
      filters: [{ column: "event_id", op: "like", value: "s%" }],
      order_by: [{ column: "event_id" }],
    });
  }

  let refusal = "";
  try {
    await client.query("nosuch", { select_all: true });
  } catch (error) {
    refusal = error instanceof WaveHouseError ? `${error.status} ${error.code}` : String(error);
  }
  const live = seen.filter((id) => id !== "probe");
  return { result, seen: live, stored: stored.map((row) => row.event_id), refusal };
}
