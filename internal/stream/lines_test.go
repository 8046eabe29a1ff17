package stream

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestRowsThatAreLinesOfText(t *testing.T) {
	c := mq.Chunk{
		Header: mq.Header{
			Version: mq.Version, Format: mq.FormatJSONCompactEachRow, Rows: 2,
			Columns: `[{"name":"n","type":"UInt64"},{"name":"at","type":"DateTime64(3, 'UTC')"},{"name":"extra","type":"JSON"}]`,
		},
		Body: []byte(`[18446744073709551615,"2026-03-04T05:06:07.089Z",{"a":[1]}]` + "\n" + `[2,"2026-03-04T05:06:08.000Z",{}]` + "\n"),
	}
	p := &projector{ids: testIDs(mq.Topic{}),
		topic: mq.Topic{Table: "pages"}, hidden: func() ([]string, bool) { return nil, true },
		withhold: func(reason string, _ int, cause error) { t.Errorf("withheld: %s: %v", reason, cause) },
	}
	b, err := chunk.NewOpener().Open(c)
	require.NoError(t, err)
	require.NoError(t, b.Decode())
	out, rows := p.rows(nil, c, mq.NewPosition(1, 1), &b, view{grant: testGrant{}}, 0)
	assert.Equal(t, 2, rows)
	assert.Contains(t, string(out), `"as_sent":["extra"],"row":{"n":18446744073709551615,"at":"2026-03-04T05:06:07.089Z","extra":{"a":[1]}}}`)
	out, _ = p.rows(nil, c, mq.NewPosition(1, 1), &b, view{grant: testGrant{deny: []string{"extra"}}}, 1)
	assert.Contains(t, string(out), `Z","row":{"n":2,"at":"2026-03-04T05:06:08.000Z"}}`)
}
