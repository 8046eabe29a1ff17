package torture

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/require"
)

// maxChunkRows is how many rows a chunk of the queue has at most.
const maxChunkRows = 1000

// losses are what the server told it lost to damaged files.
type losses struct {
	chunks, letters int
	// forgotten counts damaged records of what was written.
	forgotten int
}

// told asks what each tenant's queue lost since the beginning.
func (r *rig) told() map[string]losses {
	var tenants []struct {
		Tenant string
		Queue  struct {
			Damages []struct {
				Store string
				Lost  int
			}
		}
	}
	a := r.server.Ops(r.t, http.MethodGet, "/v1/ops/tenants", "")
	require.Equal(r.t, http.StatusOK, a.Status, a.Body)
	a.JSON(r.t, &tenants)
	out := map[string]losses{}
	for _, tenant := range tenants {
		var l losses
		for _, d := range tenant.Queue.Damages {
			switch d.Store {
			case "queue":
				l.chunks += d.Lost
			case "dead_letters":
				l.letters += d.Lost
			default:
				l.forgotten++
			}
		}
		out[tenant.Tenant] = l
	}
	return out
}

// damageFile flips bytes of a random file of the queue, clears a page of it, or,
// when nobody has it open, cuts it.
func (r *rig) damageFile(cut bool) {
	var files []string
	_ = filepath.WalkDir(filepath.Join(r.server.DataDir, "nats"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it was removed meanwhile
		case d.IsDir() && d.Name() == "damaged":
			return fs.SkipDir
		case !d.Type().IsRegular() || d.Name() == "lock" || d.Name() == "ballast" || filepath.Ext(path) == ".tmp":
		default:
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return nil
	})
	slices.Sort(files)
	if blocks := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return filepath.Ext(f) != ".blk" }); r.rng.IntN(2) == 0 && len(blocks) > 0 {
		files = blocks
	}
	if len(files) == 0 {
		return
	}
	path := files[r.rng.IntN(len(files))]
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	at := r.rng.Int64N(info.Size())
	what, part := "flipped", make([]byte, 1+r.rng.IntN(16))
	switch kind := r.rng.IntN(4); {
	case kind == 0 && cut:
		r.say("%s of %d bytes is cut at %d", path, info.Size(), at)
		require.NoError(r.t, f.Truncate(at))
		return
	case kind == 1:
		at = at / 4096 * 4096
		what, part = "cleared", make([]byte, min(4096, info.Size()-at))
	default:
		n, _ := f.ReadAt(part, at)
		part = part[:n]
		for i := range part {
			part[i] ^= byte(1 + r.rng.IntN(255))
		}
	}
	r.say("%d bytes of %s of %d bytes are %s at %d", len(part), path, info.Size(), what, at)
	// Without room on the volume it cannot be written, and is left as it is.
	_, _ = f.WriteAt(part, at)
}
