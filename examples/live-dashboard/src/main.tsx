import "uplot/dist/uPlot.min.css";
import "./style.css";

import { WaveHouseProvider } from "@wavehouse/sdk/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./App.js";
import { wavehouse } from "./wavehouse.js";

createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <WaveHouseProvider client={wavehouse}>
      <App />
    </WaveHouseProvider>
  </StrictMode>,
);
