package topology

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Permissions are what the user of WaveHouse may do, and all that it needs.
type Permissions struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Responses: it may answer whoever asks it.
	Responses bool `json:"allow_responses"`
}

// PermissionsOf lists them for a topology. They allow rows, dead letters, leases and
// notices, to look at each part, and consumers on the histories, which expire. They
// allow to make, change, purge or delete none of the streams, and no durable of a
// partition.
func PermissionsOf(t Topology) Permissions {
	api := func(of ...string) string { return "$JS.API." + strings.Join(of, ".") }
	p := Permissions{
		Publish: []string{
			t.Prefix + ".ingest.>", t.LettersPrefix() + ">", t.Notices() + ">", "$KV." + t.Bucket + ".>",
			api("INFO"), api("STREAM.INFO", t.Names.DeadLetters()), api("STREAM.INFO", t.BucketStream()),
			// Whether there is a partition too many.
			api("STREAM.INFO", t.Ingest(len(t.Partitions))),
			api("DIRECT.GET", t.BucketStream()),
			api("DIRECT.GET", t.Names.DeadLetters()), api("STREAM.MSG.DELETE", t.Names.DeadLetters()),
		},
		Subscribe: []string{
			"_INBOX.>", t.Notices() + ">", "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>", "$JS.EVENT.ADVISORY.STREAM.DELETED.>",
		},
		Responses: true,
	}
	if t.IDs != "" {
		p.Publish = append(p.Publish, "$KV."+t.IDs+".>", api("STREAM.INFO", t.IDsStream()), api("DIRECT.GET", t.IDsStream(), ">"))
	}
	for i := range t.Partitions {
		ingest, history := t.Ingest(i), t.History(i)
		p.Publish = append(p.Publish,
			api("STREAM.INFO", ingest), api("CONSUMER.LIST", ingest), api("CONSUMER.INFO", ingest, "*"),
			api("CONSUMER.MSG.NEXT", ingest, "*"), api("CONSUMER.UNPIN", ingest, "*"),
			"$JS.ACK."+ingest+".>", "$JS.ACK.*.*."+ingest+".>",
			api("STREAM.INFO", history), api("STREAM.MSG.GET", history), api("DIRECT.GET", history),
			api("CONSUMER.CREATE", history, ">"), api("CONSUMER.DELETE", history, "*"), api("CONSUMER.INFO", history, "*"),
			api("CONSUMER.MSG.NEXT", history, "*"), "$JS.FC."+history+".>",
		)
	}
	return p
}

// JSON prints them for a tool.
func (p Permissions) JSON() string { return indent(p) }

// Conf prints them as a user in the configuration of a NATS server.
func (p Permissions) Conf() string {
	var b strings.Builder
	b.WriteString("# The user of WaveHouse, and all that it needs. Written by: wavehouse mq permissions\n")
	b.WriteString("authorization {\n  users = [\n    {\n      user: wavehouse\n      password: $WAVEHOUSE_NATS_PASSWORD\n      permissions {\n")
	for _, of := range []struct {
		what     string
		subjects []string
	}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
		fmt.Fprintf(&b, "        %s {\n          allow = [\n", of.what)
		for _, subject := range of.subjects {
			fmt.Fprintf(&b, "            %q\n", subject)
		}
		b.WriteString("          ]\n        }\n")
	}
	fmt.Fprintf(&b, "        allow_responses: %v\n      }\n    }\n  ]\n}\n", p.Responses)
	return b.String()
}

func indent(v any) string { return encode(v, "  ") + "\n" }

// encode writes subjects as people do, with their ">".
func encode(v any, indent string) string {
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	to.SetIndent("", indent)
	_ = to.Encode(v) // of these types never fails
	return strings.TrimSuffix(b.String(), "\n")
}
