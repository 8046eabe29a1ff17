package topology

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// Outline is another once something that Verify looks at was made, changed or
// deleted. It is cheap to ask for, as it judges nothing.
func Outline(ctx context.Context, js jetstream.JetStream, w Wanted) (string, error) {
	names := []string{w.DeadLetters()}
	if w.Bucket != "" {
		names = append(names, w.BucketStream())
	}
	for p := range w.Partitions {
		names = append(names, w.History(p), w.Ingest(p))
	}
	sum := fnv.New128a()
	add := func(parts ...any) { _, _ = fmt.Fprintln(sum, parts...) } // a hash takes everything
	for _, name := range names {
		info, s, err := stream(ctx, js, name)
		if err != nil {
			return "", err
		}
		if info == nil {
			add(name, "is missing")
			continue
		}
		add(name, info.Created, encode(info.Config, ""))
		if info.Config.Mirror != nil || name == w.DeadLetters() || name == w.BucketStream() {
			continue // its consumers come and go
		}
		durables, err := outlines(ctx, js, s)
		if err != nil {
			return "", err
		}
		add(durables)
	}
	return strconv.Quote(string(sum.Sum(nil))), nil
}

// outlines are those of a stream's consumers.
func outlines(ctx context.Context, js jetstream.JetStream, s jetstream.Stream) (all []string, err error) {
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		config, err := json.Marshal(info.Config)
		if err != nil {
			return nil, fmt.Errorf("outline of consumer %s: %w", info.Name, err)
		}
		all = append(all, fmt.Sprint(info.Name, info.Created, info.Paused, string(config)))
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("ask for the consumers of %s: %w", s.CachedInfo().Config.Name, unanswered(js, err))
	}
	slices.Sort(all)
	return all, nil
}
