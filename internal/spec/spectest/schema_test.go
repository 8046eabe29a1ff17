package spectest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/spec"
)

type document struct {
	Listener struct {
		Port int `json:"port"`
	} `json:"listener"`
	Limits *struct {
		Bytes *int64 `json:"bytes"`
	} `json:"limits"`
	Labels map[string]string `json:"labels"`
	Rules  []struct {
		Body json.RawMessage `json:"body"`
	} `json:"rules"`
}

func table() spec.Of[document] {
	return []spec.Field{
		{Key: "listener.port", Default: "8080", Min: "1", Max: "65535", Doc: "The port of `http`."},
		{Key: "limits.bytes", Unit: "GB", Max: "5GB", Doc: "Bytes."},
		{Key: "labels", Max: "1", Doc: "Labels."},
		{Key: "rules[].body", Object: true, Doc: "A rule."},
	}
}

func TestSchemaOfADocument(t *testing.T) {
	text := Schema(t, table(), "id", "title")
	var root struct {
		ID         string `json:"$id"`
		Properties map[string]struct {
			Properties map[string]json.RawMessage
			Items      struct{ Properties map[string]json.RawMessage }
			Max        int `json:"maxProperties"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &root))
	assert.Equal(t, "id", root.ID)
	assert.Equal(t, 1, root.Properties["labels"].Max)
	assert.JSONEq(t, `{"type": "integer", "minimum": 1, "maximum": 65535, "default": 8080, "description": "The port of http. 1 to 65535."}`,
		string(root.Properties["listener"].Properties["port"]))
	assert.NotContains(t, string(root.Properties["limits"].Properties["bytes"]), "default", "it is left out by default")
	assert.Contains(t, string(root.Properties["limits"].Properties["bytes"]), "Bytes. A number is GB. At most 5GB.")
	assert.JSONEq(t, `{"type": "object", "minProperties": 1, "description": "A rule."}`, string(root.Properties["rules"].Items.Properties["body"]))
}
