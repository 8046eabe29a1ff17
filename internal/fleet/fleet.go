// Package fleet knows the processes of a service from what they tell each other.
package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/notice"
)

const (
	// tellEvery is how often each process tells what it is.
	tellEvery = 5 * time.Second
	// silentAfter is how long a process that is well may not be heard, and
	// forgetAfter how long one that fell silent is still shown.
	silentAfter = 3 * tellEvery
	forgetAfter = 10 * time.Minute
	// maxProcesses bounds the processes that are remembered.
	maxProcesses = 1024
)

// Options of New; Bus and Self are required.
type Options struct {
	Bus notice.Bus
	// Self is this process; its Run, Generation, Adopted and Shards are set here.
	Self notice.Process
	// Shards are what this process has of the queue; nil for none.
	Shards func() []string
	// Now is nil for time.Now, Every 0 for five seconds.
	Now   func() time.Time
	Every time.Duration
}

// Fleet is what this process knows of all, itself included.
type Fleet struct {
	o Options

	mu   sync.Mutex
	self notice.Process
	all  map[string]heard // by run
}

type heard struct {
	notice.Process
	at time.Time
}

// Process is one process of the service.
type Process struct {
	notice.Process
	// Heard is when it was heard last.
	Heard time.Time
	// Silent says that it should have been since.
	Silent bool
	// Lagging says that it serves other settings than those adopted last.
	Lagging bool
}

// New makes a Fleet, which listens from now on.
func New(o Options) *Fleet {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every <= 0 {
		o.Every = tellEvery
	}
	f := &Fleet{o: o, self: o.Self, all: map[string]heard{}}
	f.self.Run = rand.Text()[:8]
	o.Bus.Listen(f.told)
	return f
}

// Adopted tells that this process serves settings. The first ones say nothing of
// when they were made.
func (f *Fleet) Adopted(generation string) {
	f.mu.Lock()
	if before := f.self.Generation; before != "" && before != generation {
		f.self.Adopted = f.o.Now().UTC()
	}
	f.self.Generation = generation
	f.mu.Unlock()
	f.tell()
}

// Run tells what this process is until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	every := time.NewTicker(f.o.Every)
	defer every.Stop()
	for {
		f.tell()
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Leave tells that this process ends.
func (f *Fleet) Leave() {
	f.mu.Lock()
	f.self.Left = true
	f.mu.Unlock()
	f.tell()
}

func (f *Fleet) tell() {
	var shards []string
	if f.o.Shards != nil {
		shards = f.o.Shards()
	}
	f.mu.Lock()
	f.self.Shards = shards
	self := f.self
	f.mu.Unlock()
	f.o.Bus.Tell(self)
}

// told notes what processes are. A loss is made good by what they tell next.
func (f *Fleet) told(all []notice.Notice) {
	now := f.o.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range all {
		p, ok := n.(notice.Process)
		if !ok {
			continue
		}
		_, known := f.all[p.Run]
		switch {
		case p.Left:
			delete(f.all, p.Run)
		case known || len(f.all) < maxProcesses:
			f.all[p.Run] = heard{p, now}
		}
	}
	for run, p := range f.all {
		if now.Sub(p.at) > forgetAfter {
			delete(f.all, run)
		}
	}
}

// Processes lists them by their instances, and which settings are the newest.
func (f *Fleet) Processes() (all []Process, generation string) {
	now := f.o.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.all {
		all = append(all, Process{Process: p.Process, Heard: p.at, Silent: now.Sub(p.at) > silentAfter})
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Run, b.Run)) })
	generation = newest(all)
	for i := range all {
		all[i].Lagging = all[i].Generation != generation
	}
	return all, generation
}

// newest is the generation that was adopted last by a reload. Where none was it is
// the one that most serve.
func newest(all []Process) (generation string) {
	var at time.Time
	serve, most := map[string]int{}, 0
	for _, p := range all {
		serve[p.Generation]++
		if p.Adopted.After(at) {
			generation, at = p.Generation, p.Adopted
		}
	}
	if generation != "" {
		return generation
	}
	for _, p := range all {
		if n := serve[p.Generation]; n > most {
			generation, most = p.Generation, n
		}
	}
	return generation
}
