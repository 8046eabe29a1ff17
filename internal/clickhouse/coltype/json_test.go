package coltype

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTypedPathsOfJSON(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"JSON":                              {},
		"JSON()":                            {},
		"JSON(max_dynamic_paths=8, a Int8)": {"a": "Int8"},
		"JSON(max_dynamic_types=16, `user.id` UInt32, tags Array(String), SKIP `a.b`, SKIP REGEXP '^x, y', SKIP c, t Tuple(a Int8, `b.c` String))": {
			"user.id": "UInt32", "tags": "Array(String)", "t": "Tuple(a Int8, `b.c` String)"},
		"JSON(a.b.c DateTime64(3, 'UTC'), `SKIP` String, `a`.`d` Int8)": {"a.b.c": "DateTime64(3, 'UTC')", "SKIP": "String", "a.d": "Int8"},
	} {
		parsed, err := Parse(text)
		require.NoError(t, err, text)
		paths, err := parsed.JSONPaths()
		require.NoError(t, err, text)
		got := map[string]string{}
		for _, p := range paths {
			got[p.Path] = p.Type.Text
		}
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"JSON(a)", "JSON(a Int8 b)", "JSON(max_dynamic_paths=x)", "JSON(`a Int8)", "JSON(SKIP REGEXP 'x)", "JSON(=1)"} {
		parsed, err := Parse(text)
		if err == nil {
			_, err = parsed.JSONPaths()
		}
		assert.Error(t, err, text)
	}
}
