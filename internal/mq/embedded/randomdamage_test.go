package embedded

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var (
	damageRounds = flag.Int("damage.rounds", 24, "rounds of the test that damages random files")
	damageSeed   = flag.Uint64("damage.seed", 1, "its seed; 0 takes one from the clock, to search on")
)

// TestRandomDamage damages random bytes of random files, at rest and in use: all
// that is lost is told and counted, and nothing else is lost.
func TestRandomDamage(t *testing.T) {
	seed := *damageSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	rounds := *damageRounds
	if testing.Short() {
		rounds /= 3
	}
	for n := range rounds {
		seed := seed + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("again with: go test ./internal/mq/embedded -run TestRandomDamage -args -damage.seed=%d -damage.rounds=1", seed)
			r := newRuin(t, seed)
			r.write()
			if r.rng.IntN(3) == 0 {
				r.inUse()
			} else {
				r.atRest()
			}
		})
	}
}

// ruin is one round.
type ruin struct {
	t   *testing.T
	rng *rand.Rand
	dir string
	b   *Broker
	log *logBook
	// bodies are what was published, by tenant and position; acked what was
	// acknowledged; letters what was parked and not discarded.
	bodies map[tenant.ID][]string
	acked  map[tenant.ID]map[uint64]bool
	// letters are parked rows that must be there.
	letters map[tenant.ID]map[string]bool
	// used says that the damage was done while the broker ran: what it had in
	// memory may have been delivered, and be told as lost all the same.
	used bool
	// file was damaged, by what; hit bounds the records of it that were.
	file, what string
	hit        int
}

func newRuin(t *testing.T, seed uint64) *ruin {
	return &ruin{
		t: t, rng: rand.New(rand.NewPCG(seed, 17)), dir: t.TempDir(), log: &logBook{}, bodies: map[tenant.ID][]string{},
		acked: map[tenant.ID]map[uint64]bool{}, letters: map[tenant.ID]map[string]bool{},
	}
}

func (r *ruin) open(dir string) {
	r.dir = dir
	r.b = start(r.t, Options{
		Dir: dir, Logger: r.log.logger(), WatchInterval: 10 * time.Millisecond,
		repairEvery: 20 * time.Millisecond, scrubEvery: 20 * time.Millisecond,
	})
}

// write fills the queues of two tenants.
func (r *ruin) write() {
	t := r.t
	r.open(r.dir)
	for _, id := range []tenant.ID{"birch", "cedar"} {
		for n := range 20 + r.rng.IntN(150) {
			body := fmt.Sprintf("%s %d %s", id, n, strings.Repeat("abcdefgh", r.rng.IntN(1<<r.rng.IntN(11))))
			require.EqualValues(t, n+1, seqOf(put(t, r.b, id, body)))
			r.bodies[id] = append(r.bodies[id], body)
		}
		r.letters[id] = map[string]bool{}
		for n := range r.rng.IntN(40) {
			row := fmt.Sprint("letter ", n)
			require.NoError(t, r.b.Park(t.Context(), mqtest.Letter(id, "t", row)))
			r.letters[id][row] = true
		}
		r.discardSome(id)
		r.acked[id] = map[uint64]bool{}
	}
	in, c := consumeInto(t, r.b)
	total := len(r.bodies["birch"]) + len(r.bodies["cedar"])
	front, odd := r.rng.IntN(60), r.rng.IntN(30)
	for n, d := range in.await(t, total) {
		if seq := seqOf(d.Position()); int(seq) <= front || r.rng.IntN(100) < odd {
			require.NoError(t, c.Ack(d), n)
			r.acked[d.Chunk().Tenant][seq] = true
		}
	}
	require.NoError(t, c.Stop(t.Context()))
}

func (r *ruin) discardSome(id tenant.ID) {
	store, err := r.b.DeadLetters(id)
	require.NoError(r.t, err)
	page, err := store.List(r.t.Context(), "t", 100, "")
	require.NoError(r.t, err)
	for _, l := range page.Letters {
		if r.rng.IntN(5) == 0 {
			_, err := store.Discard(r.t.Context(), l.ID)
			require.NoError(r.t, err)
			delete(r.letters[id], string(l.Row))
		}
	}
}

// atRest damages a file of a store that was closed, or that was left as a kill
// leaves it.
func (r *ruin) atRest() {
	if r.rng.IntN(2) == 0 {
		require.NoError(r.t, r.b.Close(r.t.Context()))
	} else {
		left := r.t.TempDir()
		require.NoError(r.t, os.CopyFS(filepath.Join(left, "nats"), os.DirFS(r.dir)))
		require.NoError(r.t, r.b.Close(r.t.Context()))
		r.dir = filepath.Join(left, "nats")
	}
	r.damage(true)
	r.open(r.dir)
	r.judge()
}

// inUse damages a file under a broker that runs.
func (r *ruin) inUse() {
	r.used = true
	r.damage(false)
	r.judge()
}

// damage picks a file and does something to it.
func (r *ruin) damage(cut bool) {
	t := r.t
	var files []string
	require.NoError(t, filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == asideFolder || name == "obs"):
			return fs.SkipDir
		case d.IsDir() || name == "lock" || name == ballastFile:
		default:
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return nil
	}))
	slices.Sort(files)
	blocks := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return filepath.Ext(f) != ".blk" })
	if r.rng.IntN(2) == 0 {
		files = blocks
	}
	r.file = files[r.rng.IntN(len(files))]
	data, err := os.ReadFile(r.file)
	require.NoError(t, err)
	at := r.rng.IntN(len(data))
	n := min(1+r.rng.IntN(16), len(data)-at)
	before := slices.Clone(data)
	switch kinds := 4; {
	case cut && r.rng.IntN(kinds) == 0:
		n, r.what = len(data)-at, "cut"
		data = data[:at]
	case r.rng.IntN(kinds) == 0:
		at = at / 4096 * 4096
		n, r.what = min(4096, len(data)-at), "a page of zeros"
		clear(data[at : at+n])
	case r.rng.IntN(kinds) == 0:
		n, r.what = min(1+r.rng.IntN(2000), len(data)-at), "noise"
		for i := range n {
			data[at+i] = byte(r.rng.Uint32())
		}
	default:
		r.what = "flipped bytes"
		for i := range n {
			data[at+i] ^= byte(1 + r.rng.IntN(255))
		}
	}
	r.what = fmt.Sprintf("%s at %d of %d, %d bytes", r.what, at, len(before), n)
	if filepath.Ext(r.file) == ".blk" {
		r.hit = recordsIn(before, at, n)
	}
	t.Logf("%s: %s", r.file, r.what)
	f, err := os.OpenFile(r.file, os.O_WRONLY, 0)
	require.NoError(t, err)
	if len(data) < len(before) {
		require.NoError(t, f.Truncate(int64(len(data))))
	} else {
		_, err = f.WriteAt(data[at:at+n], int64(at))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

// recordsIn counts the records that have a byte in the range.
func recordsIn(data []byte, at, n int) (hit int) {
	for from := 0; from < len(data); {
		size := int(binary.LittleEndian.Uint32(data[from:]) &^ (1 << 31))
		if from < at+n && from+size > at {
			hit++
		}
		from += size
	}
	return hit
}

// judge accounts for every chunk and letter.
func (r *ruin) judge() {
	t := r.t
	in, _ := consumeInto(t, r.b)
	var missing []string
	require.Eventually(t, func() bool {
		missing = r.account(in.list())
		return len(missing) == 0
	}, time.Minute, 10*time.Millisecond, "%s\n%v\n%s", r.what, &missing, r.log)
	for _, d := range in.list() {
		id, seq := d.Chunk().Tenant, seqOf(d.Position())
		require.LessOrEqual(t, seq, uint64(len(r.bodies[id])))
		require.Equal(t, r.bodies[id][seq-1], string(d.Chunk().Body))
		if r.acked[id][seq] {
			require.Contains(t, r.file, "acks", "a chunk that was acknowledged came again")
		}
	}
	// A store that is in use may be opened again just now.
	require.Eventually(t, func() bool { return len(r.b.Unavailable()) == 0 }, time.Minute, 10*time.Millisecond)
	for id, bodies := range r.bodies {
		lost := int(testutil.ToFloat64(r.b.metrics.lost.WithLabelValues(string(id))))
		require.LessOrEqual(t, lost, r.hit, "more chunks of %s are lost than were hit: %s", id, r.log)
		if !strings.Contains(r.file, string(id)) {
			require.Zero(t, lost, "the other tenant")
		}
		r.goOn(id, uint64(len(bodies)+1))
	}
}

// goOn checks that the tenant's queue takes chunks and letters, as soon as the
// store was opened again, and gives no position twice.
func (r *ruin) goOn(id tenant.ID, next uint64) {
	require.Equal(r.t, next, seqOf(putOnce(r.t, r.b, id, "next")))
	require.Eventually(r.t, func() bool { return r.b.Park(r.t.Context(), mqtest.Letter(id, "t", "another")) == nil }, time.Minute, 10*time.Millisecond)
}

// account says what is missing that was not told.
func (r *ruin) account(came []mq.Delivery) (missing []string) {
	for id, bodies := range r.bodies {
		got := map[uint64]bool{}
		for _, d := range came {
			if d.Chunk().Tenant == id {
				got[seqOf(d.Position())] = true
			}
		}
		told, gone := map[uint64]bool{}, 0
		for _, d := range r.b.Damages() {
			for seq := d.First; d.Tenant == id && d.Store == mq.StoreQueue && d.Lost > 0 && seq <= d.Last; seq++ {
				told[seq] = true
			}
		}
		for n := range bodies {
			if seq := uint64(n + 1); !got[seq] && !r.acked[id][seq] {
				gone++
				if !told[seq] {
					missing = append(missing, fmt.Sprintf("chunk %d of %s is gone, and nobody was told", seq, id))
				}
			}
		}
		if lost := int(testutil.ToFloat64(r.b.metrics.lost.WithLabelValues(string(id)))); lost != gone && (!r.used || lost < gone) {
			missing = append(missing, fmt.Sprintf("%d chunks of %s are gone, %d were counted", gone, id, lost))
		}
		if n, counted := r.lettersGone(id), int(testutil.ToFloat64(r.b.metrics.lostLetters.WithLabelValues(string(id)))); n > counted || n > r.hit {
			missing = append(missing, fmt.Sprintf("%d letters of %s are gone, %d were counted, at most %d hit", n, id, counted, r.hit))
		}
	}
	return missing
}

func (r *ruin) lettersGone(id tenant.ID) (n int) {
	store, err := r.b.DeadLetters(id)
	require.NoError(r.t, err)
	page, err := store.List(r.t.Context(), "t", 100, "")
	if err != nil {
		return len(r.letters[id]) // the store is being opened again
	}
	kept := map[string]bool{}
	for _, l := range page.Letters {
		kept[string(l.Row)] = true
	}
	for row := range r.letters[id] {
		if !kept[row] {
			n++
		}
	}
	return n
}

// String makes the log readable in a failure, as it is then.
func (l *logBook) String() string { return l.text() }
