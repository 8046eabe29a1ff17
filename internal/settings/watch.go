package settings

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// burstFactor bounds a burst of changes that never ends, in quiet times.
const burstFactor = 10

// Run watches a flat directory and reloads it after each change, until ctx ends.
// A burst of changes, a file that is renamed over another and a swap of the link
// that the files stand behind are one reload each. A nested directory is not
// watched: its writer alone knows when a folder is complete, and asks for the
// reload. It returns nil.
func (r *Registry) Run(ctx context.Context) error {
	if r.Nested() {
		<-ctx.Done()
		return nil
	}
	w := &watcher{registry: r}
	defer w.close()
	w.open()
	w.loop(ctx)
	return nil
}

// watcher is owned by the one goroutine of Run.
type watcher struct {
	registry *Registry
	notify   *fsnotify.Watcher // nil while there are no notifications
	watched  os.FileInfo       // the directory that notify watches
	quiet    *time.Timer       // ends a burst
	began    time.Time         // when the burst began; zero when there is none
}

// loop waits for changes. Besides the system's notifications it looks for
// itself now and then: network file systems give none, and they can be lost.
func (w *watcher) loop(ctx context.Context) {
	// What changed between the first reading and the watch is found here.
	w.quiet = time.NewTimer(w.registry.options.Debounce)
	defer w.quiet.Stop()
	poll := time.NewTicker(w.registry.options.Poll)
	defer poll.Stop()
	for {
		events, errs := w.channels()
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok || w.concerns(e) {
				w.postpone()
			}
		case err := <-errs:
			w.failed(err)
		case <-w.quiet.C:
			w.settle(ctx)
		case <-poll.C:
			w.look()
		}
	}
}

// channels returns those of the notifier, nil while there is none: a nil
// channel is never ready.
func (w *watcher) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.notify == nil {
		return nil, nil
	}
	return w.notify.Events, w.notify.Errors
}

// concerns reports whether an event is about the directory, and not about a
// neighbour of the link that leads to it.
func (w *watcher) concerns(e fsnotify.Event) bool {
	dir := filepath.Clean(w.registry.dir)
	return filepath.Dir(e.Name) != filepath.Dir(dir) || filepath.Base(e.Name) == filepath.Base(dir)
}

// postpone puts the reload off until the burst is over, but not for ever.
func (w *watcher) postpone() {
	quiet := w.registry.options.Debounce
	if w.began.IsZero() {
		w.began = time.Now()
	}
	if time.Since(w.began) < burstFactor*quiet {
		w.quiet.Reset(quiet)
	}
}

// failed reopens the notifier, and reads the directory: changes may have been
// lost.
func (w *watcher) failed(err error) {
	w.registry.options.Logger.Warn("settings: change notifications failed", "error", err)
	w.close()
	w.postpone()
}

// settle ends a burst.
func (w *watcher) settle(ctx context.Context) {
	w.began = time.Time{}
	w.follow()
	w.registry.reload(ctx, nil, false)
}

// look is the poll: it compares without reading the files.
func (w *watcher) look() {
	w.follow()
	if last := w.registry.stamp.Load(); *last != stamp(w.registry.dir) {
		w.postpone()
	}
}

// follow watches anew when the path leads to another directory than before.
func (w *watcher) follow() {
	info, err := os.Stat(w.registry.dir)
	if err == nil && w.notify != nil && os.SameFile(info, w.watched) {
		return
	}
	w.close()
	w.open()
}

// open watches the directory. Without success the poll goes on alone, and tries
// again.
func (w *watcher) open() {
	if w.registry.options.WithoutWatch {
		return
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	w.watched, err = os.Stat(w.registry.dir)
	if err != nil || notify.Add(w.registry.dir) != nil {
		_ = notify.Close()
		return
	}
	w.notify = notify
	w.openParent()
}

// openParent watches the folder of a directory whose name is a link, where the
// link can be swapped.
func (w *watcher) openParent() {
	dir := filepath.Clean(w.registry.dir)
	if info, err := os.Lstat(dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
		_ = w.notify.Add(filepath.Dir(dir))
	}
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close()
		w.notify = nil
	}
}
