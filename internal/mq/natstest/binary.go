package natstest

import "github.com/wavehouse/wavehouse/internal/processtest"

// Server is the path of the pinned server's binary, which is built first.
func Server() (string, error) {
	return processtest.Build("nats-server", "github.com/nats-io/nats-server/v2")
}
