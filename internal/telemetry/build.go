package telemetry

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Build describes the running binary.
type Build struct {
	Version   string `json:"version"`
	GitCommit string `json:"git_commit"`
	BuildTime string `json:"build_time"`
	GoVersion string `json:"go_version"`
}

// BuildInfo fills what the linker did not set from the binary's own build
// information; unknown fields are "unknown".
func BuildInfo(version, commit, buildTime string) Build {
	b := Build{Version: version, GitCommit: commit, BuildTime: buildTime, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.GitCommit = cmp.Or(b.GitCommit, s.Value)
			case "vcs.time":
				b.BuildTime = cmp.Or(b.BuildTime, s.Value)
			}
		}
	}
	b.Version = cmp.Or(b.Version, "dev")
	b.GitCommit = cmp.Or(b.GitCommit, "unknown")
	b.BuildTime = cmp.Or(b.BuildTime, "unknown")
	return b
}
