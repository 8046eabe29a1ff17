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

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
)

// newSlots is the address of a node that owns nothing and tells one process that the
// slots belong to servers at these addresses, which can be others than another
// process is told. The servers need not be of a cluster.
func newSlots(t testing.TB, owners ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answer := fmt.Sprintf("*%d\r\n", len(owners))
	for i, owner := range owners {
		answer += fmt.Sprintf("*4\r\n:%d\r\n:%d\r\n", i*16384/len(owners), (i+1)*16384/len(owners)-1)
		for _, addr := range []string{owner, l.Addr().String()} { // the node as a replica, or it would be forgotten
			host, port, _ := net.SplitHostPort(addr)
			answer += fmt.Sprintf("*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
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

// More primaries than are asked for their histories are not used at all.
func TestACacheOfMorePrimariesThanAreAskedIsNotUsed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "--save", "", "--protected-mode", "no", "--bind", "*")
	owners := make([]string, 1001)
	for i := range owners {
		owners[i] = fmt.Sprintf("127.0.%d.%d:%d", 1+i/200, 1+i%200, server.Port)
	}
	o := quick()
	o.Mode, o.Addresses = redis.Cluster, []string{newSlots(t, owners...)}
	c := open(t, o)
	_, ticket := c.Lookup(t.Context(), cache.NewKey("a").Key())
	require.ErrorContains(t, c.Status(), "more than 1000 primaries")
	require.Empty(t, ticket.Store.Life, "nothing is believed")
}
