package topology_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestMain is the nats command line too, as far as the script uses it, when the
// binary is called so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nats" {
		os.Exit(commandLine(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func commandLine(args []string) int {
	if len(args) != 6 || strings.Join(args[:4], " ") != "request --raw --timeout 10s" {
		fmt.Fprintf(os.Stderr, "nats: unknown arguments %q\n", args)
		return 1
	}
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.Timeout(30*time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer nc.Close()
	answer, err := nc.Request(args[4], []byte(args[5]), 10*time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(string(answer.Data))
	return 0
}
