// Written by `wavehouse codegen ts` for the role "viewer". Do not edit.

export interface Database {
  tables: {
    "clicks": {
      row: {
        "id": string;
        "page": string;
        "at": string;
      };
      insert: {
        "id": string;
        "page": string;
        "at": string | Date;
      };
    };
  };
  pipes: {
  };
}
