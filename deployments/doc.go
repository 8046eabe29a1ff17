// Package deployments holds the files that run WaveHouse elsewhere: an image,
// a compose project, Kubernetes manifests, alert rules and a dashboard. It has
// no code; its tests hold the files against the product, so that a key or a
// metric that is renamed cannot leave them behind.
package deployments
