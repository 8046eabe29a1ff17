package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// storeIn opens a stream in the folder and returns what stores a body in it.
// The stream is open for as long as the process runs.
func storeIn(folder string) (func(io.Reader) error, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "bare", DontListen: true, JetStream: true, StoreDir: folder, SyncAlways: true, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("the stream's server does not start")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "BARE", Subjects: []string{"bare"}}); err != nil {
		return nil, err
	}
	return func(body io.Reader) error {
		data, err := io.ReadAll(body)
		if err == nil {
			_, err = js.Publish(ctx, "bare", data)
		}
		return err
	}, nil
}
