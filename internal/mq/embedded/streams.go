package embedded

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	ingestPrefix = "INGEST_"
	letterPrefix = "DLQ_"
	// What subjects begin with.
	ingestSubjects = "ingest."
	letterSubjects = "dlq."
)

func ingestStream(t tenant.ID) string { return ingestPrefix + string(t) }
func letterStream(t tenant.ID) string { return letterPrefix + string(t) }

func ingestConfig(t tenant.ID, budget int64, duplicates time.Duration) natsjs.StreamConfig {
	return natsjs.StreamConfig{
		Name: ingestStream(t), Subjects: []string{ingestSubjects + string(t) + ".>"},
		Storage: natsjs.FileStorage, Retention: natsjs.LimitsPolicy,
		Discard: natsjs.DiscardNew, MaxBytes: budget, MaxMsgs: -1, MaxMsgSize: -1,
		Duplicates: duplicates, AllowDirect: true, Replicas: 1,
	}
}

func letterConfig(t tenant.ID, budget int64) natsjs.StreamConfig {
	return natsjs.StreamConfig{
		Name: letterStream(t), Subjects: []string{letterSubjects + string(t) + ".>"},
		Storage: natsjs.FileStorage, Retention: natsjs.LimitsPolicy,
		Discard: natsjs.DiscardOld, MaxBytes: max(budget/deadLetterShare, 1), MaxMsgs: -1, MaxMsgSize: -1,
		Duplicates: time.Second, AllowDirect: true, Replicas: 1, AllowAtomicPublish: true,
	}
}

// listStreams asks for every stream's configuration and state.
func (h *host) listStreams(ctx context.Context) ([]*natsjs.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*jetstream.APITimeout)
	defer cancel()
	lister := h.js.ListStreams(ctx)
	var out []*natsjs.StreamInfo
	for info := range lister.Info() {
		out = append(out, info)
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	return out, nil
}

// purgeBelow removes everything below seq.
func (h *host) purgeBelow(ctx context.Context, name string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, jetstream.PurgeTimeout)
	defer cancel()
	s, err := h.js.Stream(ctx, name)
	if err == nil {
		err = s.Purge(ctx, natsjs.WithPurgeSequence(seq))
	}
	if err != nil {
		return fmt.Errorf("purge stream %s: %w", name, err)
	}
	return nil
}

// create makes a stream that the server does not have. A folder that already
// holds data of it is one the server could not open: it is left as it is.
func (h *host) create(ctx context.Context, cfg natsjs.StreamConfig) (*natsjs.StreamInfo, error) {
	if err := h.inspector.heldBack(cfg.Name); err != nil {
		return nil, err
	}
	if err := h.clearLeftover(cfg.Name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jetstream.APITimeout)
	defer cancel()
	s, err := h.js.CreateStream(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("create stream %s in %s: %w", cfg.Name, h.streamDir(cfg.Name), err)
	}
	return s.CachedInfo(), nil
}

// clearLeftover removes the folder of a stream whose creation was cut short,
// and fails when the folder holds data.
func (h *host) clearLeftover(name string) error {
	dir := h.streamDir(name)
	data, err := holdsData(dir)
	switch {
	case err != nil:
		return fmt.Errorf("stream %s: %w", name, err)
	case data:
		return fmt.Errorf("stream %s in %s holds data but cannot be opened: restore it from a backup, or move the folder away to start empty", name, dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	return nil
}

// holdsData looks for a message block with content.
func holdsData(dir string) (bool, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "msgs"))
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil && !os.IsNotExist(err) {
			return false, err
		}
		if err == nil && strings.HasSuffix(e.Name(), ".blk") && info.Size() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// foldersOnDisk lists the names of streams that have a folder.
func (h *host) foldersOnDisk() ([]string, error) {
	entries, err := os.ReadDir(h.streamsDir())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list stored streams: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// tenantOf reads the tenant from a stream's name.
func tenantOf(name, prefix string) (tenant.ID, bool) {
	id, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return "", false
	}
	t, err := tenant.Parse(id)
	return t, err == nil
}
