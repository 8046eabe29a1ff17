package topology

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"gopkg.in/yaml.v3"
)

// Request is one request to JetStream that makes a part of a topology.
type Request struct {
	Subject string          `json:"subject"`
	Body    json.RawMessage `json:"body"`
}

// Requests make a topology, in this order. A part that is there as wanted stays; one
// that differs is refused, and nothing is changed.
func (t Topology) Requests() []Request {
	var all []Request
	for _, p := range t.Partitions {
		all = append(all, p.partition())
		all = append(all, p.durables()...)
		all = append(all, p.mirror())
	}
	all = append(all, streamRequest(t.DeadLetters))
	for _, bucket := range t.Buckets {
		all = append(all, streamRequest(bucketStream(bucket)))
	}
	return all
}

func (p Partition) partition() Request { return streamRequest(p.Stream) }

// durables come before rows do: what no durable covers is gone at once.
func (p Partition) durables() []Request {
	all := []Request{consumerRequest(p.Stream.Name, p.History)}
	for _, shard := range p.Shards {
		all = append(all, consumerRequest(p.Stream.Name, shard))
	}
	return all
}

func (p Partition) mirror() Request { return streamRequest(p.Mirror) }

func streamRequest(c jetstream.StreamConfig) Request {
	return Request{"$JS.API.STREAM.CREATE." + c.Name, body(c)}
}

func consumerRequest(stream string, c jetstream.ConsumerConfig) Request {
	c.Name = c.Durable
	return Request{"$JS.API.CONSUMER.CREATE." + stream + "." + c.Durable, body(map[string]any{
		"stream_name": stream, "config": c, "action": "create",
	})}
}

func body(v any) json.RawMessage { return json.RawMessage(encode(v, "")) }

// bucketStream is the stream that a KV bucket is.
func bucketStream(b jetstream.KeyValueConfig) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + b.Bucket, Description: b.Description, Subjects: []string{"$KV." + b.Bucket + ".>"},
		MaxMsgsPerSubject: int64(b.History), MaxBytes: b.MaxBytes, MaxMsgs: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard: jetstream.DiscardNew, Storage: b.Storage, Replicas: b.Replicas,
		AllowRollup: true, DenyDelete: true, AllowDirect: true, Duplicates: 2 * time.Minute,
		AllowMsgTTL: b.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: b.LimitMarkerTTL,
	}
}

// JSON prints the requests for a tool.
func (t Topology) JSON() string { return indent(t.Requests()) }

const scriptHead = `#!/bin/sh
# Makes what WaveHouse needs of a NATS cluster, with the nats command line and the
# rights of the account's owner (its context, or NATS_URL, NATS_USER, …). What is
# there already, as wanted, stays; what differs is refused and not changed.
# Written by: wavehouse mq manifests --format nats-cli
set -eu

api() { # subject, request
    answer=$(nats request --raw --timeout 10s "$1" "$2")
    case "$answer" in
    *'"error"'*) echo "$1: $answer" >&2; exit 1 ;;
    *) echo "$1: done" ;;
    esac
}

`

// Script prints the requests as a shell script around the nats command line.
func (t Topology) Script() string { return scriptHead + calls(t.Requests()) }

func calls(all []Request) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "api '%s' '%s'\n", r.Subject, r.Body)
	}
	return b.String()
}

const nackHead = `# What WaveHouse needs of a NATS cluster, for the JetStream controller (nack).
# Written by: wavehouse mq manifests --format nack
#
# Partitions and the bucket of leases are resources. What those resources cannot
# say, or only in newer versions (pinned clients, the ack policy flow_control, mirrors
# through a durable, batches of dead letters, TTLs of single keys), is made by the Job at the end, with the
# nats command line and the rights of the account's owner, from the Secret
# "nats-admin" with the keys url, user and password. It may run again at any time.
`

// resource is a Kubernetes object.
type resource struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   map[string]any `yaml:"metadata"`
	Spec       map[string]any `yaml:"spec,omitempty"`
	Data       map[string]any `yaml:"data,omitempty"`
}

const nackVersion = "jetstream.nats.io/v1beta2"

// Nack prints the topology as Kubernetes resources.
func (t Topology) Nack() string {
	var all []resource
	script := scriptHead + `until nats account info >/dev/null 2>&1; do sleep 2; done
`
	for _, p := range t.Partitions {
		all = append(all, nackStream(p.Stream))
		script += "# The resource of this stream makes it, unless this does first.\n" + calls([]Request{p.partition()}) +
			calls(p.durables()) + calls([]Request{p.mirror()})
	}
	script += calls([]Request{streamRequest(t.DeadLetters)})
	for _, b := range t.Buckets {
		if b.LimitMarkerTTL > 0 { // no resource says so
			script += calls([]Request{streamRequest(bucketStream(b))})
			continue
		}
		all = append(all, resource{APIVersion: nackVersion, Kind: "KeyValue", Metadata: named(b.Bucket), Spec: map[string]any{
			"bucket": b.Bucket, "description": b.Description, "history": int(b.History),
			"maxBytes": b.MaxBytes, "storage": "file", "replicas": b.Replicas,
		}})
	}
	all = append(all, resource{
		APIVersion: "v1", Kind: "ConfigMap", Metadata: named("wavehouse-nats"), Data: map[string]any{"make.sh": script},
	}, job())
	var b strings.Builder
	b.WriteString(nackHead)
	for _, r := range all {
		data, _ := yaml.Marshal(r) // of these types never fails
		b.WriteString("---\n" + string(data))
	}
	return b.String()
}

// named makes a name that Kubernetes takes.
func named(name string) map[string]any {
	return map[string]any{"name": strings.ReplaceAll(strings.ToLower(name), "_", "-")}
}

func nackStream(c jetstream.StreamConfig) resource {
	return resource{APIVersion: nackVersion, Kind: "Stream", Metadata: named(c.Name), Spec: map[string]any{
		"name": c.Name, "description": c.Description, "subjects": c.Subjects, "retention": "interest", "discard": "new",
		"discardPerSubject": c.DiscardNewPerSubject, "maxMsgsPerSubject": c.MaxMsgsPerSubject, "maxBytes": c.MaxBytes,
		"storage": "file", "replicas": c.Replicas, "duplicateWindow": c.Duplicates.String(), "allowDirect": c.AllowDirect,
		"preventDelete": true,
	}}
}

// job runs the script once the cluster answers.
func job() resource {
	secret := func(name, key string) map[string]any {
		return map[string]any{"name": name, "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "nats-admin", "key": key}}}
	}
	return resource{APIVersion: "batch/v1", Kind: "Job", Metadata: named("wavehouse-nats"), Spec: map[string]any{
		"backoffLimit": 6,
		"template": map[string]any{"spec": map[string]any{
			"restartPolicy": "OnFailure", "automountServiceAccountToken": false,
			"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
			"containers": []any{map[string]any{
				"name": "make", "image": "natsio/nats-box:0.18.0", "command": []string{"sh", "/scripts/make.sh"},
				"env":             []any{secret("NATS_URL", "url"), secret("NATS_USER", "user"), secret("NATS_PASSWORD", "password"), map[string]any{"name": "HOME", "value": "/tmp"}},
				"resources":       map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}, "limits": map[string]any{"memory": "128Mi"}},
				"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []string{"ALL"}}},
				"volumeMounts":    []any{map[string]any{"name": "scripts", "mountPath": "/scripts"}, map[string]any{"name": "tmp", "mountPath": "/tmp"}},
			}},
			"volumes": []any{
				map[string]any{"name": "scripts", "configMap": map[string]any{"name": "wavehouse-nats"}},
				map[string]any{"name": "tmp", "emptyDir": map[string]any{}},
			},
		}},
	}}
}

// Values prints values for the Helm chart of NATS: a cluster with a server for each
// replica, and its two users. The passwords are in the Secret "nats-users".
func (t Topology) Values(p Plan) string {
	user := func(name, variable string, may map[string]any) map[string]any {
		u := map[string]any{"user": name, "password": "<< $" + variable + " >>"}
		if may != nil {
			u["permissions"] = may
		}
		return u
	}
	password := func(key string) map[string]any {
		return map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "nats-users", "key": key}}}
	}
	may := PermissionsOf(t)
	data, _ := yaml.Marshal(map[string]any{ // of these types never fails
		"config": map[string]any{
			"cluster": map[string]any{"enabled": p.Replicas > 1, "replicas": p.Replicas},
			"jetstream": map[string]any{
				"enabled":   true,
				"fileStore": map[string]any{"enabled": true, "pvc": map[string]any{"enabled": true, "size": fmt.Sprintf("%dGi", p.FileStore>>30)}},
				// A row that was acknowledged outlives a power cut of all servers.
				"merge": map[string]any{"sync_interval": "always"},
			},
			"merge": map[string]any{"authorization": map[string]any{"users": []any{
				user("operator", "OPERATOR_NATS_PASSWORD", nil),
				user("wavehouse", "WAVEHOUSE_NATS_PASSWORD", map[string]any{
					"publish": map[string]any{"allow": may.Publish}, "subscribe": map[string]any{"allow": may.Subscribe},
					"allow_responses": may.Responses,
				}),
			}}},
		},
		"container": map[string]any{
			"image": map[string]any{"tag": serverVersion + "-alpine"},
			"env":   map[string]any{"OPERATOR_NATS_PASSWORD": password("operator"), "WAVEHOUSE_NATS_PASSWORD": password("wavehouse")},
		},
		"podTemplate": map[string]any{"topologySpreadConstraints": map[string]any{
			"kubernetes.io/hostname": map[string]any{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
		}},
		"natsBox": map[string]any{"enabled": false},
	})
	return "# Values for the Helm chart nats/nats. Written by: wavehouse mq manifests --format helm-values\n" + string(data)
}

// serverVersion is the NATS server that WaveHouse is tested on.
const serverVersion = "2.15.3"
