package redis_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// newSlots is the address of a node that owns nothing and tells one process that the
// slots belong to servers at the ends of these ways, which can be others than another
// process is told. The servers need not be of a cluster.
func newSlots(t testing.TB, ways []*path) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answer := fmt.Sprintf("*%d\r\n", len(ways))
	for i, way := range ways {
		answer += fmt.Sprintf("*4\r\n:%d\r\n:%d\r\n", i*16384/len(ways), (i+1)*16384/len(ways)-1)
		for _, addr := range []string{way.addr, l.Addr().String()} { // the node as a replica, or it would be forgotten
			_, port, _ := net.SplitHostPort(addr)
			answer += fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n:%s\r\n", port)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			all.Go(func() { tellSlots(conn, answer) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// tellSlots answers CLUSTER SLOTS, and knows no other command.
func tellSlots(conn net.Conn, answer string) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n"
		if strings.EqualFold(strings.Join(words, " "), "cluster slots") {
			reply = answer
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		line, failed := in.ReadString('\n')
		if err = failed; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for range number() {
		word := make([]byte, number()+2)
		if err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:len(word)-2]))
	}
	return words, err
}
