// Command bare is the floor under an HTTP answer in Go: it reads the body and
// answers the bytes of a file, and does nothing else. With -publish it stores
// the body in an fsynced JetStream stream before that.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	publish := flag.String("publish", "", "`folder` to store every body in")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: bare [-publish <folder>] <file to answer with>")
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := store(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})}
	log.Fatal(server.Serve(listener))
}
