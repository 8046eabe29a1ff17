// Package ingest takes records in: the Gate judges the records of a request and
// makes its rows durable as chunks of the queue, many requests sharing one
// chunk.
package ingest
