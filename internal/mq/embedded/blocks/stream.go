package blocks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
)

// indexFile is where the server remembers what its blocks hold. It reads the
// blocks when the file is gone.
const indexFile = "index.db"

// Stream is a stream on disk that nobody has open.
type Stream struct {
	Name string
	// Dir holds its blocks, Aside is where damaged ones are copied to.
	Dir, Aside string
	// Subject is what the subject of each of its messages begins with.
	Subject string
	// Known is what is known of it besides.
	Known Known
	// Seen remembers files that are whole; nil for none.
	Seen *Seen
}

// Known is what is known of a stream from elsewhere.
type Known struct {
	// Published is the newest sequence that was answered for, 0 when that is not
	// known.
	Published uint64
	// Acked is what was acknowledged, nil when that is not known. In a stream
	// that has it, whatever is not acknowledged must be there.
	Acked *ledger.Acked
	// Removed is how many messages were removed that may be anywhere in the
	// stream, nil when that is not known.
	Removed *uint64
}

// Report says what a stream lost.
type Report struct {
	// Lost are the sequences of messages that are gone and that nobody has
	// acknowledged; where that cannot be told, those that may have been.
	Lost ledger.Ranges
	// History counts acknowledged messages that are gone.
	History uint64
	// Files are those that were damaged.
	Files []File
	// Torn counts bytes of a write that was cut short and never answered for.
	Torn int
}

// File is one that was damaged.
type File struct {
	Path string
	// Copy is the file as it was found.
	Copy string
	// Mended counts the damaged parts of which nothing is lost, Bytes all that is
	// lost.
	Mended, Bytes int
}

// Heal looks at all files of the stream. Damaged ones are copied aside, and then
// replaced by what is whole of them. When it fails nothing is lost that was not
// before, and the stream must not be opened.
func (s *Stream) Heal(now time.Time) (Report, error) {
	var report Report
	indices, err := listBlocks(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return report, fmt.Errorf("list blocks of stream %s: %w", s.Name, err)
	}
	all := make([]*block, 0, len(indices))
	for _, index := range indices {
		b, err := s.block(index)
		if err != nil {
			return report, err
		}
		all = append(all, b)
	}
	report.Lost, report.History = s.losses(all)
	last := s.lastOf(all)
	if err := s.repair(all, last, now, &report); err != nil {
		return report, fmt.Errorf("repair stream %s: %w", s.Name, err)
	}
	return report, nil
}

func (s *Stream) block(index uint32) (*block, error) {
	path := blockPath(s.Dir, index)
	if b := s.Seen.unchanged(path); b != nil {
		return b, nil
	}
	note := s.Seen.look(path)
	b, err := readBlock(path, index, s.Name, s.Subject, &bytes.Buffer{})
	if err == nil && !b.hurt() {
		note(b)
	}
	return b, err
}

// lastOf is the newest sequence that the stream must not give out again.
func (s *Stream) lastOf(all []*block) uint64 {
	last := s.Known.Published
	if s.Known.Acked != nil {
		last = max(last, s.Known.Acked.Highest())
	}
	for _, b := range all {
		last = max(last, b.last)
	}
	return last
}

// losses tells what is gone. Around a damaged part it is what lies between the
// messages on both sides of it; in a stream of which is known what was
// acknowledged, all else that is not there.
func (s *Stream) losses(all []*block) (lost ledger.Ranges, history uint64) {
	var kept, gone, missing ledger.Ranges
	for _, b := range all {
		for _, r := range b.kept {
			kept = kept.Add(r)
		}
		for _, r := range b.gone {
			gone = gone.Add(r)
		}
	}
	last, newest := s.lastOf(all), uint64(0)
	short := s.short(last, kept.Minus(gone).Count())
	back := func(before uint64) uint64 { return stepBack(before, short, gone) }
	for i, b := range all {
		newest = max(newest, b.last)
		for _, w := range b.wounds {
			if from, to, ok := s.extent(all, i, w, last, back); ok && !w.mended {
				missing = missing.Add(ledger.Range{Lo: from, Hi: to})
			}
		}
	}
	if short > 0 && newest < last {
		missing = missing.Add(ledger.Range{Lo: max(newest, back(last+1)) + 1, Hi: last})
	}
	acked := s.Known.Acked
	if acked != nil && last > acked.Floor {
		missing = missing.Add(ledger.Range{Lo: acked.Floor + 1, Hi: last})
	}
	missing = missing.Minus(kept).Minus(gone)
	if acked == nil {
		return missing, 0
	}
	done := acked.Above
	if acked.Floor > 0 {
		done = append(ledger.Ranges{{Lo: 1, Hi: acked.Floor}}, done...)
	}
	lost = missing.Minus(done)
	return lost, missing.Count() - lost.Count()
}

// short is how many messages are not there that were not removed, 0 also when that
// is not known.
func (s *Stream) short(last, there uint64) uint64 {
	if s.Known.Removed == nil || last <= *s.Known.Removed+there {
		return 0
	}
	return last - *s.Known.Removed - there
}

// stepBack goes back from a sequence until n that are not gone are between, or to the
// beginning.
func stepBack(before, n uint64, gone ledger.Ranges) (after uint64) {
	after = before - 1
	for found := uint64(0); found < n && after > 0; {
		after -= min(after, n-found)
		found = ledger.Ranges{{Lo: after + 1, Hi: before - 1}}.Minus(gone).Count()
	}
	return after
}

// extent is which sequences may have been in a damaged part of the i-th block.
func (s *Stream) extent(all []*block, i int, w wound, last uint64, back func(uint64) uint64) (from, to uint64, ok bool) {
	after, before := w.after, w.before
	for k := i - 1; k >= 0 && after == 0; k-- {
		after = all[k].last
	}
	for k := i + 1; k < len(all) && before == 0; k++ {
		if len(all[k].kept) > 0 {
			before = all[k].kept[0].Lo
		}
	}
	plausible := w.guess > after && (before == 0 || w.guess < before) && w.guess <= last+maxGuess
	switch {
	case before == 0 && s.Known.Published > 0:
		before = last + 1
	case before == 0 && plausible:
		before = max(last, w.guess) + 1
	case before == 0:
		before = last + 1
	}
	if after == 0 {
		switch {
		case s.Known.Acked != nil && s.Known.Acked.Floor > 0:
			after = s.Known.Acked.Floor
		case s.Known.Removed != nil:
			after = back(before)
		case plausible:
			after = w.guess - 1
		default:
			// As many as there was room for.
			after = before - 1 - min(before-1, uint64((w.to-w.from)/smallest+1))
		}
	}
	return after + 1, before - 1, before > after+1
}

// smallest is about the least that a message takes.
const smallest = 64

// maxGuess bounds by how much a damaged record's sequence is believed to be
// ahead.
const maxGuess = 1 << 16

// repair replaces what is damaged and sees to it that last is never given out
// again.
func (s *Stream) repair(all []*block, last uint64, now time.Time, report *Report) error {
	newest, changed := uint64(0), false
	for i, b := range all {
		newest = max(newest, b.last)
		if !b.hurt() {
			continue
		}
		changed = true
		if i == len(all)-1 && b.torn() && s.Known.Published > 0 && len(report.Lost) == 0 {
			w := b.wounds[0]
			report.Torn = w.to - w.from
		} else if err := s.setAside(b, now, report); err != nil {
			return err
		}
	}
	bump := last > newest && (changed || len(report.Lost) > 0)
	if !changed && !bump {
		return nil
	}
	// Without its index the server looks at the blocks.
	if err := os.Remove(filepath.Join(s.Dir, indexFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i, b := range all {
		if !b.hurt() {
			continue
		}
		if bump && i == len(all)-1 {
			b.records = append(b.records, b.codec.erase(last, now.UnixNano()))
			bump = false
		}
		if err := replace(b.path, b.content()); err != nil {
			return err
		}
	}
	if bump {
		return s.note(all, last, now)
	}
	return nil
}

// note appends to the last block that sequences up to last were given out.
func (s *Stream) note(all []*block, last uint64, now time.Time) error {
	index := uint32(1)
	if n := len(all); n > 0 {
		index = all[n-1].index
	}
	c, err := newCodec(s.Name, s.Subject, index)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(blockPath(s.Dir, index), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(c.erase(last, now.UnixNano()).data)
	return errors.Join(err, f.Sync(), f.Close())
}

// setAside copies a damaged file away.
func (s *Stream) setAside(b *block, now time.Time, report *Report) error {
	file := File{Path: b.path}
	for _, w := range b.wounds {
		if w.mended {
			file.Mended++
		} else {
			file.Bytes += w.to - w.from
		}
	}
	var err error
	if file.Copy, err = CopyAside(b.path, s.Aside, now); err != nil {
		return err
	}
	report.Files = append(report.Files, file)
	return nil
}

// CopyAside copies a file to a folder, under its name and the time, durably.
func CopyAside(path, folder string, now time.Time) (copied string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("copy %s aside: %w", path, err)
	}
	copied = filepath.Join(folder, now.UTC().Format("20060102T150405.000Z-")+filepath.Base(path))
	in, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("copy %s aside: %w", path, err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(copied, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("copy %s aside: %w", path, err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close(), ledger.SyncDir(folder)); err != nil {
		_ = os.Remove(copied)
		return "", fmt.Errorf("copy %s aside: %w", path, err)
	}
	return copied, nil
}

// replace puts content in the place of a file; without any the file goes.
func replace(path string, content []byte) error {
	if len(content) == 0 {
		return errors.Join(os.Remove(path), ledger.SyncDir(filepath.Dir(path)))
	}
	f, err := ledger.ReplaceFile(path, content)
	if err != nil {
		return err
	}
	return f.Close()
}
