// Turns the flights data set, an array of
//   {"date":"2001/01/01 00:47","delay":66,"distance":1750,"origin":"DTW","destination":"LAS"}
// into one object a line with an id and an RFC 3339 time:
//   {"flight_id":"2001-00001","departed_at":"2001-01-01T00:47:00Z","origin":"DTW","destination":"LAS","delay":66,"distance":1750}
import { readFileSync } from "node:fs";

const flights = JSON.parse(readFileSync(process.argv[2], "utf8"));
const date = /^(\d{4})\/(\d\d)\/(\d\d) (\d\d):(\d\d)$/;

const lines = flights.map((flight, index) => {
  const parts = date.exec(flight.date);
  if (!parts) throw new Error(`flight ${index + 1}: date ${JSON.stringify(flight.date)}`);
  const [, year, month, day, hour, minute] = parts;
  return JSON.stringify({
    flight_id: `${year}-${String(index + 1).padStart(5, "0")}`,
    departed_at: `${year}-${month}-${day}T${hour}:${minute}:00Z`,
    origin: flight.origin,
    destination: flight.destination,
    delay: flight.delay,
    distance: flight.distance,
  });
});
process.stdout.write(lines.join("\n") + "\n");
