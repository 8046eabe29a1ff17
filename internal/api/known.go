package api

import (
	"crypto/sha256"
	"net/http"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxKnown bounds the documents whose keys are remembered, so that one whose
// answer is in the cache is not compiled again.
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

// answerKnown answers a document that was compiled before from the cache. It is
// not done when the document is to be compiled.
func (s *Server) answerKnown(w http.ResponseWriter, r *http.Request, a asked, who audience) (done bool, err error) {
	if s.Results == nil || a.format != query.FormatJSON {
		return false, nil
	}
	key, ok := s.known.Get(a)
	if !ok {
		return false, nil
	}
	value := s.Results.Peek(r.Context(), key)
	if value == nil {
		return false, nil
	}
	var at *room // of a small one nothing is held
	if _, size := encodingOf(r.Header.Get("Accept-Encoding"), value); size > pieceBytes {
		if at, err = s.Answers.begin(r.Context(), a.tenant); err != nil {
			return true, err
		}
		defer at.end()
	}
	setHeaders(w.Header(), "Cache-Control", "private, no-cache")
	tellCacheState(w, cacheHit)
	who.tellKept(w.Header(), value, cache.Hit)
	return s.sendValue(w, r, at, value)
}
