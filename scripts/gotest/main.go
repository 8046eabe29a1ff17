// Command gotest runs `go test` and prints what a reader of a log wants: a
// line a package, the whole output of a test that failed, the reason of one
// that was skipped, and the counts at the end.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	totals := flag.String("totals", "", "`file` to write 'passed failed skipped' to")
	flag.Parse()
	os.Exit(run(flag.Args(), *totals, os.Stdout, os.Stderr))
}

func run(args []string, totalsFile string, stdout, stderr io.Writer) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(stderr, "gotest:", err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "gotest:", err)
		return 1
	}
	r := newReport(stdout)
	scanErr := r.read(out)
	err = cmd.Wait()
	fmt.Fprintf(stdout, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if totalsFile != "" {
		line := fmt.Sprintf("%d %d %d\n", r.passed, r.failed, r.skipped)
		if err := os.WriteFile(totalsFile, []byte(line), 0o600); err != nil {
			fmt.Fprintln(stderr, "gotest:", err)
			return 1
		}
	}
	if err != nil || scanErr != nil || r.failed > 0 {
		return 1
	}
	return 0
}

// event is a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// report gathers events. Output is kept per test until its verdict is known.
type report struct {
	out                     io.Writer
	output                  map[string][]string
	broken                  map[string]bool // packages with a failed test
	passed, failed, skipped int
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[string][]string{}, broken: map[string]bool{}}
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.add(e)
	}
	return lines.Err()
}

func (r *report) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		r.verdict(e, key)
		delete(r.output, key)
	}
}

func (r *report) verdict(e event, key string) {
	if e.Test == "" {
		r.packageVerdict(e, key)
		return
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.broken[e.Package] = true
		fmt.Fprint(r.out, strings.Join(r.output[key], ""))
	case "skip":
		r.skipped++
		fmt.Fprint(r.out, strings.Join(r.output[key], ""))
	}
}

func (r *report) packageVerdict(e event, key string) {
	switch e.Action {
	case "pass":
		fmt.Fprintf(r.out, "ok    %s %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		// What belongs to no test: a build error, a panic, a timeout.
		fmt.Fprint(r.out, strings.Join(r.output[key], ""))
		fmt.Fprintf(r.out, "FAIL  %s %.1fs\n", e.Package, e.Elapsed)
		if !r.broken[e.Package] {
			r.failed++
		}
	}
}
