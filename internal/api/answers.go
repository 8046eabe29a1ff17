package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// pieceBytes is what an answer takes of memory at least, and what is sent of
	// one at a time.
	pieceBytes = 32 << 10
	// compressorBytes is what compressing an answer takes, besides its
	// bytes.
	compressorBytes = 1280 << 10
	// answersWait is how long an answer waits for memory or for leave to be sent
	// while ClickHouse makes it.
	answersWait = 5 * time.Second
	// retryAnswers is when to ask again: readers that do not read are gone by then.
	retryAnswers = 2 * time.Second
	// maxHeldAnswer bounds an answer that is held whole, whatever the memory.
	maxHeldAnswer = 64 << 20
	// defaultAnswers is the memory of answers, of 512 MiB in all.
	defaultAnswers = 128 << 20
	// streamBytes is what an open stream takes, with its connection.
	streamBytes = 40 << 10
	// letterBytes is what a page or a replay of dead letters takes: what is read of
	// the queue, and its rendering.
	letterBytes = 24 << 20
	// entryBytes is what an entry of the results of an ingest takes.
	entryBytes = 512
	// defaultHeldAnswer is the largest answer that the cache keeps by default.
	defaultHeldAnswer = 4 << 20
)

// Answers is the memory of answers that are made and sent. A piece is what each
// cannot do without; with more of it an answer is held whole, which may be cached
// and whose failure is an error, not an end in the middle. So nobody who holds
// large answers keeps others from theirs.
type Answers struct {
	pieces, whole *fairshare.Bytes
	// maxHeld bounds an answer that is held whole, and most what one may reserve.
	maxHeld, most int64
	// maxPage bounds a page.
	maxPage int64
}

// NewAnswers shares total bytes; 0 is 128 MiB. cacheable is the size of an answer
// that is worth holding whole; 0 is 4 MiB.
func NewAnswers(total, cacheable int64) *Answers {
	total, cacheable = cmp.Or(total, defaultAnswers), cmp.Or(cacheable, defaultHeldAnswer)
	pieces := total / 4
	return &Answers{
		pieces: fairshare.New(pieces, pieces), whole: fairshare.New(total-pieces, total-pieces),
		most: (total - pieces) / 2, maxHeld: min(cacheable, maxHeldAnswer, total/8),
		maxPage: min(maxHeldAnswer, total/8),
	}
}

// TakeWithin takes n bytes for a tenant, and waits for them until ctx ends.
func (a *Answers) TakeWithin(ctx context.Context, id tenant.ID, n int64) bool {
	return a.whole.TakeWithin(ctx, id, n)
}

// Give gives back what TakeWithin took.
func (a *Answers) Give(id tenant.ID, n int64) { a.whole.Give(id, n) }

// reserve is TakeWithin for an answer that is made otherwise, for as long as one
// waits.
func (a *Answers) reserve(ctx context.Context, id tenant.ID, n int64) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, answersWait)
	defer cancel()
	n = min(n, a.most)
	if !a.TakeWithin(waiting, id, n) {
		return nil, answersBusy(ctx)
	}
	return func() { a.Give(id, n) }, nil
}

// begin takes what an answer needs, and waits a little for it.
func (a *Answers) begin(ctx context.Context, id tenant.ID) (*room, error) {
	if !a.pieces.Take(id, pieceBytes) {
		waiting, cancel := context.WithTimeout(ctx, answersWait)
		defer cancel()
		if !a.pieces.TakeWithin(waiting, id, pieceBytes) {
			return nil, answersBusy(ctx)
		}
	}
	return &room{of: a, tenant: id}, nil
}

// answersBusy is the answer when there is no memory for one; the caller's leaving
// is its own.
func answersBusy(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return problem(http.StatusServiceUnavailable, "answers.busy", "too many answers are being sent: their memory is spent").
		retryable(retryAnswers)
}

// room is the memory of one answer, for one goroutine.
type room struct {
	of     *Answers
	tenant tenant.ID
	held   int64 // of whole
	// page: what is held is a page, whose cursor is not known before its end.
	page bool
}

// hold takes what n bytes in all need, in place of what was held; what was held
// stays when there is no room. Both are there while one is copied to the other.
func (r *room) hold(n int64) bool {
	most := r.of.maxHeld
	if r.page {
		most = max(most, r.of.maxPage)
	}
	if n > most || !r.of.whole.Take(r.tenant, n) {
		return false
	}
	r.letGo()
	r.held = n
	return true
}

// letGo gives back what is held: it is sent.
func (r *room) letGo() {
	if r.held > 0 {
		r.of.whole.Give(r.tenant, r.held)
		r.held = 0
	}
}

// compressing says whether the answer may be compressed as it is sent. The caller
// gives what it takes back with end.
func (r *room) compressing(w http.ResponseWriter, req *http.Request) (end func()) {
	if !compressible(req) {
		return func() {}
	}
	if !r.of.whole.Take(r.tenant, compressorBytes) {
		w.Header().Set(gzhttp.HeaderNoCompression, "1")
		return func() {}
	}
	return func() { r.of.whole.Give(r.tenant, compressorBytes) }
}

// compressible reports whether the client takes answers compressed.
func compressible(r *http.Request) bool {
	accepted := r.Header.Get("Accept-Encoding")
	return strings.Contains(accepted, "gzip") || strings.Contains(accepted, "zstd") || strings.Contains(accepted, "*")
}

// end gives everything back.
func (r *room) end() {
	r.letGo()
	r.of.pieces.Give(r.tenant, pieceBytes)
}
