package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onNATS is what a process on a cluster needs to say.
var onNATS = []string{dirSet, "WH_MQ_BACKEND=nats", "WH_COORD_BACKEND=nats", "WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true"}

func TestAQueueOnNATS(t *testing.T) {
	inDir(t)
	c, warnings, err := Load(append(onNATS, "WH_MQ_NATS_URLS=nats://a:4222,tls://b", "WH_MQ_NATS_PARTITIONS=2"), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"nats://a:4222", "tls://b"}, c.MQ.NATS.URLs)
	assert.Equal(t, 2, c.MQ.NATS.Partitions)
	assert.Equal(t, "wh_coord", c.Coord.NATS.Bucket)
	assert.NotContains(t, warnings, "mq.nats.user: the password crosses the network in clear; set mq.nats.tls.enabled where the servers speak TLS")
	_, warnings, err = Load(append(onNATS, "WH_MQ_NATS_URLS=nats://a", "WH_MQ_NATS_USER=u", "WH_MQ_NATS_PASSWORD_FILE=f"), nil)
	require.NoError(t, err)
	assert.Contains(t, warnings, "mq.nats.user: the password crosses the network in clear; set mq.nats.tls.enabled where the servers speak TLS")
}

// All faults at once, each with the key to change, and none with a secret.
func TestWhatCannotWorkOnNATSIsRefusedBeforeDialling(t *testing.T) {
	inDir(t)
	faults := faultsOf(t, []string{
		dirSet, "WH_MQ_BACKEND=nats", "WH_MQ_NATS_URLS=nats://u:hunter2@a:4222,http://hunter2.b,nats://c/hunter",
		"WH_MQ_NATS_PREFIX=a.b", "WH_MQ_NATS_USER=u", "WH_MQ_NATS_NKEY_FILE=n", "WH_MQ_NATS_CREDS_FILE=c", "WH_MQ_NATS_TLS_KEY_FILE=k",
	}, nil)
	for _, want := range []string{
		"mq.nats.urls: the URL of a:4222 holds credentials; use mq.nats.user and mq.nats.password_file, mq.nats.nkey_file or mq.nats.creds_file",
		"mq.nats.urls: want URLs like nats://host:4222 or tls://host:4222",
		`mq.nats.urls: "nats://c/hunter": want nothing behind the port`,
		`mq.nats.prefix: "a.b": want letters, digits, _ and -`,
		"mq.nats.user and mq.nats.nkey_file and mq.nats.creds_file: set one of them",
		"mq.nats.user: needs mq.nats.password_file beside it",
		"mq.nats.tls.key_file: needs mq.nats.tls.cert_file beside it",
		"coord.backend: ingest on nats shares its work through leases; set it to nats",
		"dedupe.backend: pebble keeps the ids of one process, and several may share the queue: choose another, or set dedupe.pebble.single_replica where there is only this one",
	} {
		assert.Contains(t, faults, want)
	}
	for _, f := range faults {
		assert.NotContains(t, f, "hunter2")
	}
	assert.Contains(t, faultsOf(t, onNATS, nil), "mq.nats.urls: required; name the servers, like nats://host:4222")
	assert.Contains(t, faultsOf(t, []string{dirSet, "WH_COORD_BACKEND=nats"}, nil),
		"coord.backend: the bucket of leases is in the cluster of the queue; set mq.backend to nats, or coord.backend to local")
	_, warnings, err := Load([]string{dirSet, "WH_MQ_NATS_TLS_CA_FILE=ca"}, nil)
	require.NoError(t, err)
	assert.Contains(t, warnings, `mq.nats.tls.ca_file is not used: mq.backend is "embedded"`)
}
