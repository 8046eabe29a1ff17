package nats

import "time"

const (
	// maxOthers bounds the processes that are remembered.
	maxOthers = 1024
	// silence is after how many beats without a word another process is out of
	// touch, and gone is when it is forgotten.
	silence, gone = 3, 15
)

// others are the processes that are heard, by their buses' names.
type others map[string]*other

type other struct {
	last  uint64 // of its notices
	beats int    // since it was heard
}

// heard notes a message, and says whether notices before it are missing.
func (o others) heard(m *message) (missing bool) {
	told := m.notice() != nil
	of, known := o[m.From]
	if !known {
		if len(o) >= maxOthers {
			return true
		}
		// Whoever comes later than its first notice was not heard before.
		of = &other{}
		o[m.From] = of
	}
	want := of.last
	if told {
		want++
	}
	of.last, of.beats = m.N, 0
	if m.Bye {
		delete(o, m.From)
	}
	return m.N != want
}

// beat passes the time of one beat, and says whether somebody is out of touch.
func (o others) beat() (silent bool) {
	for name, of := range o {
		of.beats++
		silent = silent || of.beats > silence
		if of.beats > gone {
			delete(o, name)
		}
	}
	return silent
}

// beatEvery is the time between signs of life.
const beatEvery = 2 * time.Second
