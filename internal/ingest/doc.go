// Package ingest takes records in at one end and puts rows into ClickHouse at
// the other. The Gate judges the records of a request and makes its rows
// durable as chunks of the queue, many requests sharing one chunk; the Worker
// takes chunks off the queue, gathers them into batches per table and inserts
// them; the Sweeper forgets the history that nobody can ask for any more.
package ingest
