package wavehouse

import (
	"context"
	"iter"
)

// Page is one page of a query.
type Page[R any] struct {
	Rows []R
	// Truncated names the bound that ended it: "limit", "role.max_rows" or
	// "query.default_max_rows". It is "" when there are no more rows.
	Truncated string
	// Cursor is for the Document.Cursor of the page behind; "" when there is none, or
	// none that a cursor could continue.
	Cursor string
}

// QueryPage is Query that says whether the answer was cut, and where it goes on.
func QueryPage[R any](ctx context.Context, c *Client, table string, document Document) (Page[R], error) {
	q, err := queryCall(table, document, "application/json")
	if err != nil {
		return Page[R]{}, err
	}
	body, header, err := c.do(ctx, q)
	if err != nil {
		return Page[R]{}, err
	}
	rows, err := rowsOf[R](body)
	return Page[R]{Rows: rows, Truncated: header.Get("X-Result-Truncated"), Cursor: header.Get("X-Next-Cursor")}, err
}

// Pages yields the pages of a document, which names order_by: each row that was there
// at the beginning is in one of them and in one only, whatever is written meanwhile.
// Limit is the most rows of a page. It begins behind document.Cursor when that is set.
// An error is the last thing it yields.
func Pages[R any](ctx context.Context, c *Client, table string, document Document) iter.Seq2[Page[R], error] {
	return func(yield func(Page[R], error) bool) {
		if document.Cursor == nil {
			document.Cursor = new(string) // so that a document without pages is refused
		}
		for {
			page, err := QueryPage[R](ctx, c, table, document)
			if !yield(page, err) || err != nil || page.Truncated == "" && page.Cursor == "" {
				return
			}
			if page.Cursor == "" || page.Cursor == *document.Cursor {
				yield(Page[R]{}, invalidResponse("there are more rows, and the page says not where; take a smaller limit", nil))
				return
			}
			document.Cursor = &page.Cursor
		}
	}
}

// AllRows yields the rows of all Pages.
func AllRows[R any](ctx context.Context, c *Client, table string, document Document) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for page, err := range Pages[R](ctx, c, table, document) {
			for _, row := range page.Rows {
				if !yield(row, nil) {
					return
				}
			}
			if err != nil {
				var none R
				yield(none, err)
				return
			}
		}
	}
}
