package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

type document struct {
	Listener listener          `json:"listener"`
	Tables   map[string]*wait  `json:"tables"`
	Limits   *limits           `json:"limits"`
	Labels   map[string]string `json:"labels"`
	Rules    []rule            `json:"rules"`
	Key      Secret            `json:"key"`
	hidden   int
}

type listener struct {
	Port   int              `json:"port"`
	Wait   time.Duration    `json:"wait"`
	Tables map[string]table `json:"tables"`
}

type table struct {
	Wait *time.Duration `json:"wait"`
	Name *string        `json:"name"`
}

type wait struct{}

type limits struct {
	Bytes *int64  `json:"bytes"`
	Share float64 `json:"share"`
}

type rule struct {
	Roles []string        `json:"roles"`
	Body  json.RawMessage `json:"body"`
}

func table0() Of[document] {
	return []Field{
		{Key: "listener.port", Default: "8080", Min: "1", Max: "65535", Doc: "The port of `http`."},
		{Key: "listener.wait", Default: "90s", Unit: "s", Min: "1s", Doc: "How long."},
		{Key: "listener.tables.*.name", Min: "1", Doc: "A name."},
		{Key: "limits.bytes", Unit: "GB", Max: "5GB", Doc: "Bytes."},
		{Key: "limits.share", Max: "1", Doc: "A share."},
		{Key: "labels", Max: "1", Doc: "Labels."},
		{Key: "rules[].roles", OneOf: []string{"reader", "writer"}, Doc: "Roles."},
		{Key: "rules[].body", Object: true, Doc: "A rule."},
		{Key: "key", Max: "8", Doc: "A key."},
	}
}

// decode returns the faults of a document as text.
func decode(t *testing.T, text string) (document, []string) {
	t.Helper()
	var d document
	table0().Fill(&d)
	doc, faults := strictjson.Parse([]byte(text))
	found := []string{}
	for _, f := range append(faults, table0().Decode(doc, &d)...) {
		found = append(found, f.Path+": "+f.Message)
	}
	return d, found
}

func TestDefaultsStayWhereNothingIsSaid(t *testing.T) {
	d, found := decode(t, `{"$comment": "none", "listener": {"port": 1}}`)
	assert.Empty(t, found)
	assert.Equal(t, listener{Port: 1, Wait: 90 * time.Second, Tables: map[string]table{}}, d.Listener)
	assert.NotNil(t, d.Labels)
	assert.Zero(t, d.hidden)
	assert.Nil(t, d.Limits)
}

func TestValuesAreHeldToTheirFields(t *testing.T) {
	for text, want := range map[string]string{
		`{"listener": {"port": 0}}`:                              `listener.port: want 1 to 65535`,
		`{"listener": {"wait": 0.5}}`:                            `listener.wait: want at least 1s`,
		`{"listener": {"tables": {"a.b": {"wait": "1ms"}}}}`:     `listener.tables["a.b"].wait: want at least 1s`,
		`{"listener": {"tables": {"t": {"name": ""}}}}`:          `listener.tables.t.name: must not be empty; leave the key out for its default`,
		`{"limits": {"bytes": 5.1}}`:                             `limits.bytes: want at most 5GB`,
		`{"limits": {"share": 1.5}}`:                             `limits.share: want at most 1`,
		`{"labels": {"a": "b", "c": "d"}}`:                       `labels: want at most 1 entries, not 2`,
		`{"rules": [{}, {"roles": ["reader", "raeder"]}]}`:       `rules[1].roles: "raeder" is not one of reader, writer; did you mean "reader"?`,
		`{"rules": [{"roles": ["reader", "writer", "reader"]}]}`: `rules[0].roles: "reader" is named twice`,
		`{"key": "123456789"}`:                                   `key: want at most 8 bytes, not 9`,
		`{"hidden": 1}`:                                          `hidden: unknown key; want one of key, labels, limits, listener, rules, tables`,
	} {
		d, found := decode(t, text)
		assert.Equal(t, []string{want}, found, text)
		assert.Zero(t, d.hidden)
	}
	d, found := decode(t, `{"listener": {"wait": 2, "tables": {"t": {"wait": 3, "name": "n"}}}, "limits": {"bytes": 0.5, "share": 1}}`)
	assert.Empty(t, found)
	assert.Equal(t, 3*time.Second, *d.Listener.Tables["t"].Wait, "an override has the unit of what it overrides")
	assert.Equal(t, int64(5e8), *d.Limits.Bytes)
}

type boot struct {
	Host  string        `json:"host"`
	Port  int           `json:"port"`
	On    bool          `json:"on"`
	Ratio float64       `json:"ratio"`
	Wait  time.Duration `json:"wait"`
	Size  int64         `json:"size"`
	Roles []string      `json:"roles"`
	Key   Secret        `json:"key"`
}

func bootTable() Of[boot] {
	return []Field{
		{Key: "host", Env: "WH_HOST", Max: "9", Doc: "Host."},
		{Key: "port", Env: "WH_PORT", Default: "80", Min: "0", Max: "99", Doc: "Port."},
		{Key: "on", Env: "WH_ON", Default: "true", Doc: "On."},
		{Key: "ratio", Env: "WH_RATIO", Min: "0", Doc: "Ratio."},
		{Key: "wait", Env: "WH_WAIT", Default: "60s", Doc: "Wait."},
		{Key: "size", Env: "WH_SIZE", Default: "1MiB", Unit: "B", Doc: "Size."},
		{Key: "roles", Env: "WH_ROLES", Default: "a,b", OneOf: []string{"a", "b", "c"}, Doc: "Roles."},
		{Key: "key", Env: "WH_KEY", Doc: "Key."},
	}
}

func TestTextReadsBack(t *testing.T) {
	var c boot
	keys := bootTable()
	keys.Fill(&c)
	assert.Equal(t, boot{Port: 80, On: true, Wait: time.Minute, Size: 1 << 20, Roles: []string{"a", "b"}}, c)
	for key, texts := range map[string][2]string{
		"host": {"h", "h"}, "port": {"7", "7"}, "on": {"false", "false"}, "ratio": {"0.25", "0.25"},
		"wait": {"3600s", "1h"}, "size": {"2048", "2KiB"}, "roles": {" c , a", "c,a"}, "key": {"hunter2", Mask},
	} {
		require.NoError(t, keys.Set(&c, key, texts[0]), key)
		assert.Equal(t, texts[1], keys.Text(&c, key), key)
	}
	assert.Equal(t, boot{"h", 7, false, 0.25, time.Hour, 2048, []string{"c", "a"}, "hunter2"}, c)
	require.NoError(t, keys.Set(&c, "roles", ""))
	assert.Nil(t, c.Roles, "as a key that nothing sets is")
	assert.Panics(t, func() { _ = keys.Set(&c, "prot", "1") })
}

func TestTextThatIsNoValueChangesNothing(t *testing.T) {
	var c boot
	keys := bootTable()
	keys.Fill(&c)
	before := fmt.Sprint(c)
	for key, texts := range map[string]map[string]string{
		"host":  {"0123456789": "want at most 9 bytes, not 10"},
		"port":  {"": `"" is not a whole number`, "1.5": `"1.5" is not a whole number`, "100": "want 0 to 99", "-1": "want 0 to 99"},
		"on":    {"yes": `"yes" is neither true nor false`},
		"ratio": {"much": `"much" is not a number`, "NaN": "want at least 0"},
		"wait":  {"10": `"10" is not a duration: want a number with a unit, like "90s", "12h" or "7d"`},
		"size":  {"1.5": `"1.5" is not a size: want a number with a unit, like "512MiB" or "1GB"`},
		"roles": {"a,,b": `"" is not one of a, b, c`, "a,a": `"a" is named twice`},
	} {
		for text, want := range texts {
			assert.EqualError(t, keys.Set(&c, key, text), want, "%s %q", key, text)
		}
	}
	assert.Equal(t, before, fmt.Sprint(c))
}

func TestSecretsNeverPrint(t *testing.T) {
	s := Secret("hunter2")
	text, err := json.Marshal(map[string]Secret{"a": s})
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s)+string(text), "hunter2")
	assert.Equal(t, "hunter2", s.Reveal())
	assert.Empty(t, Secret("").String())
}

func TestReferenceOfVariables(t *testing.T) {
	assert.Equal(t, strings.Join([]string{
		"| key | variable | default | meaning |",
		"| --- | --- | --- | --- |",
		"| `host` | `WH_HOST` | empty | Host. At most 9 bytes. |",
		"| `port` | `WH_PORT` | `80` | Port. 0 to 99. |",
		"| `on` | `WH_ON` | `true` | On. |",
		"| `ratio` | `WH_RATIO` | `0` | Ratio. At least 0. |",
		"| `wait` | `WH_WAIT` | `1m` | Wait. |",
		"| `size` | `WH_SIZE` | `1MiB` | Size. A number is bytes. |",
		"| `roles` | `WH_ROLES` | `a,b` | Roles. Of `a`, `b`, `c`. |",
		"| `key` | `WH_KEY` | empty | Key. A secret: also `WH_KEY_FILE`. |", "",
	}, "\n"), bootTable().Reference(""))
}

func TestReferenceOfASection(t *testing.T) {
	assert.Equal(t, strings.Join([]string{
		"| key | default | meaning |",
		"| --- | --- | --- |",
		"| `listener.port` | `8080` | The port of `http`. 1 to 65535. |",
		"| `listener.wait` | `\"1m30s\"` | How long. A number is seconds. At least 1s. |",
		"| `listener.tables.<table>.wait` | inherited | For one table. |",
		"| `listener.tables.<table>.name` | none | A name. |", "",
	}, "\n"), table0().Reference("listener"))
}

func TestShowReadsBack(t *testing.T) {
	text := `{"listener": {"wait": 90, "tables": {"b": {"wait": "2m"}, "a\"": {}}}, "limits": {"bytes": 1}, "key": "hunter2"}`
	first, found := decode(t, text)
	require.Empty(t, found)
	shown, err := table0().Show(&first)
	require.NoError(t, err)
	assert.Equal(t, `{
  "key": "********",
  "labels": {},
  "limits": {
    "bytes": "1GB",
    "share": 0
  },
  "listener": {
    "port": 8080,
    "tables": {
      "a\"": {},
      "b": {
        "wait": "2m"
      }
    },
    "wait": "1m30s"
  },
  "rules": [],
  "tables": {}
}
`, string(shown))
	second, found := decode(t, string(shown))
	assert.Empty(t, found)
	second.Key, second.Rules = first.Key, first.Rules
	assert.Equal(t, first, second)
}
