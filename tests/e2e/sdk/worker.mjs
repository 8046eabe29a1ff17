// The built SDK in a Worker, which answers what it saw of the server that is asked for.
import * as sdk from "./sdk/index.js";

import { scenes } from "./scenes.mjs";

export default {
  async fetch(request) {
    return Response.json(await scenes(sdk, new URL(request.url).searchParams.get("server")));
  },
};
