import { useEffect, useRef } from "react";
import uPlot from "uplot";

/** A bar for each minute; `at` is in seconds since 1970. */
export function Minutes({ points }: { points: { at: number; views: number }[] }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  useEffect(() => {
    plot.current = new uPlot(
      {
        width: 640,
        height: 180,
        legend: { show: false },
        series: [{}, { label: "views", fill: "#4a7dbd", paths: uPlot.paths.bars?.({ size: [0.8] }) }],
      },
      [[], []],
      place.current!,
    );
    return () => plot.current?.destroy();
  }, []);
  useEffect(() => plot.current?.setData([points.map(({ at }) => at), points.map(({ views }) => views)]), [points]);
  return <div ref={place} />;
}
