package api

import (
	"crypto/sha256"
	"net/http"
	"sync"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxKnown bounds the documents that are remembered.
const maxKnown = 8192

// asked is everything that decides which statement a document becomes. Equal
// ones become the same statement.
type asked struct {
	tenant   tenant.ID
	settings string // the generation's hash
	table    *schema.Table
	grant    string
	format   query.Format
	// second is the time of asking: relative bounds move no finer.
	second   int64
	document [sha256.Size]byte
}

// known remembers the keys of documents, so that a document whose answer is in
// the cache is not compiled again.
type known struct {
	mu   sync.RWMutex
	keys map[asked]cache.Key
}

func newKnown() *known { return &known{keys: map[asked]cache.Key{}} }

func (k *known) get(a asked) (cache.Key, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	key, ok := k.keys[a]
	return key, ok
}

func (k *known) put(a asked, key cache.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) >= maxKnown {
		clear(k.keys)
	}
	k.keys[a] = key
}

// answerKnown answers a document that was compiled before from the cache. It is
// not done when the document is to be compiled.
func (s *Server) answerKnown(w http.ResponseWriter, r *http.Request, a asked) (done bool, err error) {
	if s.Results == nil || a.format != query.FormatJSON {
		return false, nil
	}
	key, ok := s.known.get(a)
	if !ok {
		return false, nil
	}
	value := s.Results.Peek(r.Context(), key)
	if value == nil {
		return false, nil
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("X-Cache", cacheHit)
	return true, writeValue(w, r, value)
}
