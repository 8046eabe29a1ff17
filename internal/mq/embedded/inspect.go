package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/blocks"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// inspector looks at what is on disk each time before the server opens it. What
// is damaged is copied aside, told, and replaced by what is whole of it.
type inspector struct {
	o Options
	// streams, acks and aside are the folders of the streams, of what was
	// acknowledged, and of copies of damaged files.
	streams, acks, aside string
	log                  *slog.Logger
	seen                 *blocks.Seen

	mu sync.Mutex
	// damages is what was found, by this process and those before.
	damages []mq.Damage
	// counted is how many of them the metrics have.
	counted int
	// lost is what the queues must not wait for, by stream.
	lost map[string]ledger.Ranges
	// held are streams that the server must not open, and why.
	held map[string]error
}

// Names of files and folders.
const (
	asideFolder  = "damaged"
	reportSuffix = "report.json"
	metaFile     = "meta.inf"
	metaSumFile  = "meta.sum"
	// heldFile is the metaFile of a stream that could not be repaired: the
	// server does not open a stream that has none.
	heldFile = "meta.held"
)

// maxDamages bounds what is remembered of former damage.
const maxDamages = 100

func newInspector(o Options) *inspector {
	i := &inspector{
		o: o, log: o.Logger, seen: blocks.NewSeen(),
		streams: streamsDir(o.Dir), acks: filepath.Join(o.Dir, acksFolder), aside: filepath.Join(o.Dir, asideFolder),
		lost: map[string]ledger.Ranges{}, held: map[string]error{},
	}
	i.remember()
	return i
}

// remember reads the reports that are still there.
func (i *inspector) remember() {
	names, _ := filepath.Glob(filepath.Join(i.aside, "*", "*"+reportSuffix))
	for _, name := range names {
		var d mq.Damage
		if data, err := os.ReadFile(name); err == nil && json.Unmarshal(data, &d) == nil {
			i.damages = append(i.damages, d)
		}
	}
	slices.SortFunc(i.damages, func(a, b mq.Damage) int { return a.Found.Compare(b.Found) })
	i.damages = i.damages[max(0, len(i.damages)-maxDamages):]
	i.counted = len(i.damages)
}

// run looks at every stream. What is wrong with one costs that one alone.
func (i *inspector) run() error {
	entries, err := os.ReadDir(i.streams)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for damage: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range entries {
		t, letters, ok := ownerOf(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		group.Go(func() error {
			i.hold(e.Name(), i.look(e.Name(), t, letters))
			return nil
		})
	}
	return group.Wait()
}

// ownerOf reads a stream's name.
func ownerOf(stream string) (t tenant.ID, letters, ok bool) {
	if t, ok := tenantOf(stream, ingestPrefix); ok {
		return t, false, true
	}
	t, ok = tenantOf(stream, letterPrefix)
	return t, true, ok
}

// hold keeps a stream that could not be repaired from the server.
func (i *inspector) hold(stream string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		delete(i.held, stream)
		return
	}
	i.log.Error("damaged queue cannot be repaired: it stays closed", "stream", stream, "error", err)
	i.held[stream] = err
	dir := filepath.Join(i.streams, stream)
	if err := os.Rename(filepath.Join(dir, metaFile), filepath.Join(dir, heldFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.log.Error("a damaged queue cannot be kept closed", "stream", stream, "error", err)
	}
}

// heldBack is why a stream is not given to the server, nil when it is.
func (i *inspector) heldBack(stream string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, err := os.Stat(filepath.Join(i.streams, stream, heldFile)); errors.Is(err, fs.ErrNotExist) {
		delete(i.held, stream) // somebody moved it away
	}
	return i.held[stream]
}

func (i *inspector) holds() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.held) > 0
}

// look looks at one stream, and at what is kept about it.
func (i *inspector) look(name string, t tenant.ID, letters bool) error {
	dir := filepath.Join(i.streams, name)
	if err := os.Rename(filepath.Join(dir, heldFile), filepath.Join(dir, metaFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if data, err := holdsData(dir); err != nil || !data {
		// A folder without data is one whose creation was cut short, or whose
		// data is gone: what was answered for tells.
		if _, seq, ok, _ := ledger.ReadMark(i.markPath(name)); err != nil || !ok || seq == 0 || !i.wholeMeta(name) {
			return err
		}
	}
	damage := mq.Damage{Tenant: t, Store: mq.StoreQueue, Found: i.o.Now()}
	stream := i.stream(name, t, letters)
	if letters {
		damage.Store = mq.StoreDeadLetters
	}
	state, err := i.ledgerOf(t, letters)
	if err != nil {
		return err
	}
	epoch, err := i.checkMeta(name, t, letters, state.Epoch, &damage)
	if err != nil {
		return err
	}
	e, published, ok, damaged := ledger.ReadMark(i.markPath(name))
	if ok && e == epoch {
		stream.Known.Published = published
	} else if damaged {
		i.log.Error("the note of what was stored last is damaged", "stream", name, "file", i.markPath(name))
	}
	if state.Readable && state.Epoch == epoch {
		stream.Known.Acked = &state.Acked
	}
	if e, removed, ok, _ := ledger.ReadMark(i.markPath(removedMark(name))); letters && ok && e == epoch {
		stream.Known.Removed = &removed
	}
	report, err := stream.Heal(damage.Found)
	if err != nil {
		return err
	}
	i.report(name, report, damage)
	return nil
}

// stream describes a stream's files.
func (i *inspector) stream(name string, t tenant.ID, letters bool) blocks.Stream {
	subjects := ingestSubjects
	if letters {
		subjects = letterSubjects
	}
	return blocks.Stream{
		Name: name, Dir: filepath.Join(i.streams, name, "msgs"), Aside: filepath.Join(i.aside, name),
		Subject: subjects + string(t) + ".", Seen: i.seen,
	}
}

// removedMark names the note of how many messages of a stream were removed.
func removedMark(stream string) string { return stream + ".removed" }

func (i *inspector) markPath(stream string) string {
	return filepath.Join(i.acks, stream+".mark")
}

// ledgerOf reads what was acknowledged of an ingest stream, and says what is
// wrong with that.
func (i *inspector) ledgerOf(t tenant.ID, letters bool) (ledger.Condition, error) {
	if letters {
		return ledger.Condition{}, nil
	}
	path := ledgerPath(i.acks, t)
	c, err := ledger.Inspect(path)
	if err != nil || !c.Found || c.Whole() {
		return c, err
	}
	d := mq.Damage{Tenant: t, Store: mq.StoreAcknowledgments, Found: i.o.Now(), Detail: "chunks that were written may be written again"}
	copied, err := blocks.CopyAside(path, filepath.Join(i.aside, ingestStream(t)), d.Found)
	if err != nil {
		return c, err
	}
	d.Files = []mq.DamagedFile{{File: path, Copy: copied}}
	i.log.Error("the record of what was written is damaged: chunks may be written again", "tenant", t, "file", path,
		"copy", copied, "damaged_records", c.Damaged, "bytes_cut", c.Cut, "beginning_whole", c.Readable)
	i.add(ingestStream(t), d)
	return c, nil
}

// damagedBatches tells of damage to what was being written.
func (i *inspector) damagedBatches(path string, bytes, whole int) {
	d := mq.Damage{Store: mq.StoreBatches, Found: i.o.Now(), Detail: "rows of INSERTs that ran when the process ended may be written twice"}
	copied, err := blocks.CopyAside(path, filepath.Join(i.aside, batchesFile), d.Found)
	d.Files = []mq.DamagedFile{{File: path, Copy: copied}}
	i.log.Error("the record of what was being written is damaged: rows may be written twice", "file", path,
		"copy", copied, "damaged_bytes", bytes, "whole_records", whole, "copy_error", err)
	i.add(batchesFile, d)
}

// report tells what a stream lost.
func (i *inspector) report(name string, r blocks.Report, d mq.Damage) {
	if r.Torn > 0 {
		i.log.Info("a write that was cut short and never answered is removed", "stream", name, "bytes", r.Torn)
	}
	mended, bytes := 0, 0
	for _, f := range r.Files {
		d.Files = append(d.Files, mq.DamagedFile{File: f.Path, Copy: f.Copy})
		mended += f.Mended
		bytes += f.Bytes
	}
	d.Lost, d.History = r.Lost.Count(), r.History
	if d.Lost > 0 {
		d.First, d.Last = r.Lost[0].Lo, r.Lost[len(r.Lost)-1].Hi
	}
	if len(d.Files) == 0 && d.Lost == 0 && d.Detail == "" {
		return
	}
	i.log.Error("damage on disk", "tenant", d.Tenant, "store", d.Store, "stream", name, "files", d.Files,
		"lost", d.Lost, "first", d.First, "last", d.Last, "history_lost", d.History, "bytes_lost", bytes, "mended", mended, "detail", d.Detail)
	if d.Lost > 0 && d.Store == mq.StoreQueue {
		i.mu.Lock()
		for _, s := range r.Lost {
			i.lost[name] = i.lost[name].Add(s)
		}
		i.mu.Unlock()
	}
	i.add(name, d)
}

// add remembers a damage, durably where there is room.
func (i *inspector) add(stream string, d mq.Damage) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.damages = append(i.damages, d)
	folder := filepath.Join(i.aside, stream)
	data, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		name := d.Found.UTC().Format("20060102T150405.000Z-") + d.Store + "-" + reportSuffix
		err = os.WriteFile(filepath.Join(folder, name), append(data, '\n'), 0o600)
	}
	if err != nil {
		i.log.Warn("what was found damaged is not noted on disk", "stream", stream, "error", err)
	}
}

// takeLost hands over what a queue must not wait for.
func (i *inspector) takeLost(stream string) ledger.Ranges {
	i.mu.Lock()
	defer i.mu.Unlock()
	lost := i.lost[stream]
	delete(i.lost, stream)
	return lost
}

// untaken is what takeLost would hand over.
func (i *inspector) untaken(stream string) ledger.Ranges {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.lost[stream])
}

// taken notes that a queue does not wait for lost any more.
func (i *inspector) taken(stream string, lost ledger.Ranges) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lost[stream] = i.lost[stream].Minus(lost)
}

// uncounted returns what was found since it was asked last.
func (i *inspector) uncounted() []mq.Damage {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := slices.Clone(i.damages[i.counted:])
	i.damages = i.damages[max(0, len(i.damages)-maxDamages):]
	i.counted = len(i.damages)
	return out
}

func (i *inspector) list() []mq.Damage {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.damages)
}

// wholeMeta reports whether the server would take the stream's description.
func (i *inspector) wholeMeta(name string) bool {
	_, ok := readMeta(filepath.Join(i.streams, name), name)
	return ok
}

// readMeta reads a stream's description; ok is false when it is not whole.
func readMeta(dir, name string) (info server.FileStreamInfo, ok bool) {
	data, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return info, false
	}
	sum, err := os.ReadFile(filepath.Join(dir, metaSumFile))
	if err != nil || json.Unmarshal(data, &info) != nil {
		return info, false
	}
	return info, metaSum(name, data) == string(sum)
}

func metaSum(name string, data []byte) string {
	key := sha256.Sum256([]byte(name))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return ""
	}
	_, _ = hash.Write(data)
	return hex.EncodeToString(hash.Sum(nil))
}

// checkMeta returns the stream's epoch. A description that is damaged is written
// anew: what it says follows from the stream's name, but for the budget, which
// the tenant's settings will set, and the epoch, which others know too.
func (i *inspector) checkMeta(name string, t tenant.ID, letters bool, acked uint64, d *mq.Damage) (epoch uint64, err error) {
	dir := filepath.Join(i.streams, name)
	info, ok := readMeta(dir, name)
	if ok {
		return uint64(info.Created.UnixNano()), nil
	}
	marked, _, known, _ := ledger.ReadMark(i.markPath(name))
	switch {
	case known:
		epoch = marked
	case acked > 0:
		epoch = acked
	case !info.Created.IsZero():
		epoch = uint64(info.Created.UnixNano())
	default:
		epoch = uint64(i.o.Now().UnixNano())
	}
	for _, file := range []string{metaFile, metaSumFile} {
		path := filepath.Join(dir, file)
		copied, err := blocks.CopyAside(path, filepath.Join(i.aside, name), d.Found)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		d.Files = append(d.Files, mq.DamagedFile{File: path, Copy: copied})
	}
	d.Detail = "the description of the stream was damaged and is written anew"
	budget := max(i.o.DefaultBudget, 2*bytesIn(filepath.Join(dir, "msgs")))
	cfg := ingestConfig(t, budget, i.o.DuplicateWindow)
	if letters {
		cfg = letterConfig(t, deadLetterShare*budget)
	}
	return epoch, writeMeta(dir, cfg, time.Unix(0, int64(epoch)).UTC())
}

func writeMeta(dir string, cfg natsjs.StreamConfig, created time.Time) error {
	info := server.FileStreamInfo{Created: created}
	data, err := json.Marshal(cfg)
	if err == nil {
		err = json.Unmarshal(data, &info.StreamConfig)
	}
	if err == nil {
		data, err = json.Marshal(info)
	}
	if err != nil {
		return fmt.Errorf("describe stream %s: %w", cfg.Name, err)
	}
	for file, content := range map[string][]byte{metaFile: data, metaSumFile: []byte(metaSum(cfg.Name, data))} {
		f, err := ledger.ReplaceFile(filepath.Join(dir, file), content)
		if err != nil {
			return fmt.Errorf("describe stream %s: %w", cfg.Name, err)
		}
		_ = f.Close()
	}
	return nil
}

// bytesIn is what the files of a folder take.
func bytesIn(dir string) (n int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".blk") {
			n += info.Size()
		}
	}
	return n
}
