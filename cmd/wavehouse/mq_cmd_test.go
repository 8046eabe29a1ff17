package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

func TestManifestsOfAMeasure(t *testing.T) {
	out, talk, code := command(t, nil, "mq", "manifests", "--format", "json", "--partitions", "1", "--shards", "2", "--replicas", "1",
		"--file-store", "10Gi", "--history-age", "2h", "--prefix", "app", "--bucket", "app_coord")
	require.Zero(t, code, talk)
	var requests []struct {
		Subject string
		Body    map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &requests))
	var subjects []string
	for _, r := range requests {
		subjects = append(subjects, r.Subject)
	}
	assert.Equal(t, []string{
		"$JS.API.STREAM.CREATE.APP_INGEST_0",
		"$JS.API.CONSUMER.CREATE.APP_INGEST_0.app-history",
		"$JS.API.CONSUMER.CREATE.APP_INGEST_0.app-ingest-0", "$JS.API.CONSUMER.CREATE.APP_INGEST_0.app-ingest-1",
		"$JS.API.STREAM.CREATE.APP_HISTORY_0", "$JS.API.STREAM.CREATE.APP_DLQ", "$JS.API.STREAM.CREATE.KV_app_coord",
	}, subjects)
	assert.InDelta(t, 7.2e12, requests[4].Body["max_age"], 1)
}

func TestManifestsThatNobodyCouldMake(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"manifests", "--partitions", "0", "--replicas", "2"}, "partitions 0: want 1 to 256\nreplicas 2: want 1, 3 or 5"},
		{[]string{"manifests", "--file-store", "much"}, "--file-store: "},
		{[]string{"permissions", "--history-age", "long"}, "--history-age: "},
		{[]string{"manifests", "--format", "xml"}, `--format "xml": want nack, nats-cli, json or helm-values`},
		{[]string{"permissions", "--format", "xml"}, `--format "xml": want conf or json`},
	} {
		_, talk, code := command(t, nil, append([]string{"mq"}, c.args...)...)
		assert.Equal(t, exitUsage, code, c.args)
		assert.Contains(t, talk, c.want, c.args)
	}
}

func TestPermissionsOfAMeasure(t *testing.T) {
	out, talk, code := command(t, nil, "mq", "permissions", "--partitions", "2")
	require.Zero(t, code, talk)
	assert.Contains(t, out, `"$JS.API.CONSUMER.MSG.NEXT.WH_INGEST_1.*"`)
	assert.NotContains(t, out, "WH_INGEST_3")
	out, talk, code = command(t, nil, "mq", "permissions", "--format", "json")
	require.Zero(t, code, talk)
	assert.Contains(t, out, `"wh.ingest.>"`)
}

// A cluster is made for development alone, and checked as the server would.
func TestAClusterIsMadeAndChecked(t *testing.T) {
	server := natstest.Start(t, natstest.Options{})
	env := []string{"WH_MQ_NATS_URLS=" + server.Nodes[0].URL(), "WH_MQ_NATS_PARTITIONS=1", "WH_MQ_NATS_SHARDS=2"}
	measure := []string{"--partitions", "1", "--shards", "2", "--replicas", "1", "--file-store", "2GiB"}
	_, talk, code := command(t, env, append([]string{"mq", "apply"}, measure...)...)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, talk, "apply is for development clusters")
	out, _, code := command(t, env, "mq", "check")
	assert.Equal(t, exitFailure, code)
	assert.Contains(t, out, "required: WH_INGEST_0: the stream is missing")
	_, talk, code = command(t, env, append([]string{"mq", "apply", "--development"}, measure...)...)
	require.Zero(t, code, talk)
	require.Eventually(t, func() bool { _, _, code = command(t, env, "mq", "check"); return code == 0 }, time.Minute, 100*time.Millisecond)
	out, talk, code = command(t, env, "mq", "check", "--format", "json")
	require.Zero(t, code, talk)
	assert.Contains(t, out, "num_replicas is 1")
}
