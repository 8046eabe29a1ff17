// Command bare is the floor under an HTTP answer in Go: it reads the body and
// answers the bytes of a file, and does nothing else. With -publish it stores
// the body in an fsynced JetStream stream before that. With -proxy it is Go's own
// reverse proxy.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	publish := flag.String("publish", "", "`folder` to store every body in")
	proxied := flag.String("proxy", "", "`address` to pass requests on to")
	flag.Parse()
	if *proxied != "" && flag.NArg() == 0 {
		serve(reverseProxy(*proxied))
	}
	if flag.NArg() != 1 {
		log.Fatal("usage: bare [-publish <folder>] <file to answer with>, or bare -proxy <address>")
	}
	store := func(io.Reader) error { return nil }
	if *publish != "" {
		var err error
		if store, err = storeIn(*publish); err != nil {
			log.Fatal(err)
		}
	}
	answer, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := store(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
}

// serve prints where it listens and does not return.
func serve(handler http.Handler) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler}
	log.Fatal(server.Serve(listener))
}

// reverseProxy holds a statement before it sends it on: a body that is still looked at
// for its end when the answer is there costs the transport its connection.
func reverseProxy(addr string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		},
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	}
}
