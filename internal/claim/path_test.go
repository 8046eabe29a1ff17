package claim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/claim"
)

func claims() map[string]any {
	return map[string]any{
		"role": "top", "app_metadata.role": "forged", "app_metadata": map[string]any{"role": "inner", "a.b": "dotted", "deep": map[string]any{"role": "deepest"}},
		"https://x/y.z": "url", "https://x/y": map[string]any{"z": "inside"}, `q"\`: "odd", "a b": "spaced", "none": nil, "": "empty",
	}
}

// A path means one thing: no claim that somebody else named can stand in for it.
func TestADotIsAStepUnlessItsNameIsQuoted(t *testing.T) {
	for text, want := range map[string]any{
		"role": "top", "app_metadata.role": "inner", `"app_metadata.role"`: "forged", "app_metadata.deep.role": "deepest", `app_metadata."a.b"`: "dotted",
		`"https://x/y.z"`: "url", `"https://x/y".z`: "inside", `"q\"\\"`: "odd", `"a b"`: "spaced", "none": nil, `"role"`: "top", `app_metadata."deep".role`: "deepest",
	} {
		path, err := claim.Parse(text)
		require.NoError(t, err, text)
		value, ok := path.Lookup(claims())
		assert.True(t, ok, text)
		assert.Equal(t, want, value, text)
	}
	for _, text := range []string{"missing", "app_metadata.missing", "app_metadata.a.b", "role.inner", "none.x", `"app_metadata.deep".role`, "app_metadata.role.x"} {
		path, err := claim.Parse(text)
		require.NoError(t, err, text)
		_, ok := path.Lookup(claims())
		assert.False(t, ok, text)
	}
	_, ok := claim.Path("role").Lookup(nil)
	assert.False(t, ok)
}

func TestPathsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"": "names joined by dots", ".": "names joined by dots", "a.": "names joined by dots", "a..b": "names joined by dots", `""`: "names joined by dots",
		`"a`: "ends with its quote", `"a"b`: "ends with its quote", `"a\"`: "ends with its quote", `a"b`: "must be quoted", "a b": "must be quoted", "a{": "must be quoted", `a\b`: "must be quoted",
		"https://x/y.z": "must be quoted", "a.https://x": "must be quoted",
	} {
		_, err := claim.Parse(text)
		assert.ErrorContains(t, err, want, "%q", text)
		_, ok := claim.Path(text).Lookup(map[string]any{"a": map[string]any{"b": 1}})
		assert.False(t, ok, text)
	}
}

func TestStepsAreWrittenSoThatTheyAreRead(t *testing.T) {
	for want, steps := range map[string][]string{
		"app_metadata.role": {"app_metadata", "role"}, `"https://x/y.z"`: {"https://x/y.z"}, `a."b c"."d\"\\"`: {"a", "b c", `d"\`},
	} {
		path := claim.Of(steps...)
		assert.Equal(t, claim.Path(want), path)
		_, err := claim.Parse(string(path))
		assert.NoError(t, err)
	}
}

func TestAPathInASettingsFile(t *testing.T) {
	for raw, want := range map[string]claim.Path{
		`"role"`: "role", `["app_metadata","role"]`: "app_metadata.role", `["https://x/y.z"]`: `"https://x/y.z"`, `"\"https://x/y.z\""`: `"https://x/y.z"`, `""`: "",
	} {
		var path claim.Path
		require.NoError(t, path.UnmarshalStrict([]byte(raw)), raw)
		assert.Equal(t, want, path)
	}
	for _, raw := range []string{`[]`, `[""]`, `[1]`, `1`, `null`, `{}`, `"https://x/y.z"`, `"a..b"`, `["a",["b"]]`} {
		assert.Error(t, new(claim.Path).UnmarshalStrict([]byte(raw)), raw)
	}
}
