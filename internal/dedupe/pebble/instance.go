package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

const (
	// maxOperations bounds the windows that are worked on at once.
	maxOperations = 128
	memTableBytes = 8 << 20
	cacheBytes    = 16 << 20
)

// instance is one opening of the files. Pebble ends its process when it cannot
// go on; here it ends the instance, and the next one reads the files again.
type instance struct {
	db     *pebble.DB
	volume *volume
	logger *slog.Logger
	slots  chan struct{}
	busy   *busy
	active int // calls under way, guarded by the store's mutex

	once   sync.Once
	broken chan struct{} // closed when the instance gave up
	cause  error         // set before broken is closed
}

func newInstance(o Options) *instance {
	return &instance{
		volume: &volume{FS: o.fs, retry: o.retryFull}, logger: o.Logger,
		slots: make(chan struct{}, maxOperations), busy: newBusy(), broken: make(chan struct{}),
	}
}

// open reads the files. It takes as long as the disk is full.
func (in *instance) open(dir string) (err error) {
	if err := checkManifest(in.volume, dir); err != nil {
		return err
	}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	options := &pebble.Options{
		FS: in.volume, Cache: cache, Logger: fatal{in}, MemTableSize: memTableBytes,
		FormatMajorVersion: pebble.FormatNewest, MaxOpenFiles: 256,
		EventListener: &pebble.EventListener{BackgroundError: func(err error) {
			in.logger.Error("the store of seen ids: background work failed", "error", err)
		}, DataCorruption: func(info pebble.DataCorruptionInfo) {
			in.logger.Error("the store of seen ids is damaged on disk: ids in this file are not answered for", "file", info.Path)
		}},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	in.db, err = pebble.Open(dir, options)
	return err
}

// giveUp ends the instance.
func (in *instance) giveUp(cause error) {
	in.once.Do(func() {
		in.cause = cause
		in.logger.Error("the store of seen ids gave up; it is opened again", "error", cause)
		close(in.broken)
	})
}

func (in *instance) isBroken() bool {
	select {
	case <-in.broken:
		return true
	default:
		return false
	}
}

// run does op and returns when it has ended, or with an error when nobody can
// say how long it takes. left is called once op has ended, which is never for
// an instance that gave up.
func (in *instance) run(ctx context.Context, op func() error, left func()) error {
	if in.volume.full() {
		left()
		return fmt.Errorf("%w: the disk is full", dedupe.ErrUnavailable)
	}
	select {
	case in.slots <- struct{}{}:
	case <-in.broken:
		left()
		return in.gone()
	case <-ctx.Done():
		left()
		return fmt.Errorf("%w: waiting for a turn: %w", dedupe.ErrUnavailable, context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer left()
		defer func() { <-in.slots }()
		done <- in.guarded(op)
	}()
	select {
	case err := <-done:
		return in.judge(err)
	case <-in.broken:
		return in.gone()
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer: %w", dedupe.ErrUnavailable, context.Cause(ctx))
	}
}

// guarded turns a panic of Pebble into the end of the instance.
func (in *instance) guarded(op func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			in.giveUp(fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
			err = in.cause
		}
	}()
	return op()
}

// judge does not believe a success of an instance that gave up meanwhile.
func (in *instance) judge(err error) error {
	switch {
	case in.isBroken():
		return in.gone()
	case err != nil:
		return fmt.Errorf("%w: %w", dedupe.ErrUnavailable, brief(err))
	}
	return nil
}

// brief cuts off what Pebble adds to the line that says what is damaged.
func brief(err error) error {
	line, _, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	return errors.New(strings.TrimSpace(line))
}

func (in *instance) gone() error { return fmt.Errorf("%w: %w", dedupe.ErrUnavailable, brief(in.cause)) }

// fatal is the instance's logger. What Pebble calls fatal does not return:
// Pebble does not expect it to.
type fatal struct{ in *instance }

// Infof implements pebble.Logger.
func (f fatal) Infof(format string, args ...any) {
	f.in.logger.Debug("pebble", "message", fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (f fatal) Errorf(format string, args ...any) {
	f.in.logger.Warn("pebble", "message", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. Its goroutine ends here for good, as it
// would with the process.
func (f fatal) Fatalf(format string, args ...any) {
	f.in.giveUp(fmt.Errorf(format, args...))
	select {}
}

// defaultFS is the operating system's.
func defaultFS() vfs.FS { return vfs.Default }
