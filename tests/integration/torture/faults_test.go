package torture

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// condition is something that is wrong for a while.
type condition struct {
	name       string
	begin, end func()
	// alone is for what must be undone before anything else is done.
	alone bool
}

// event is something that happens at once.
type event struct {
	name string
	do   func()
}

func (r *rig) conditions() []condition {
	tenant := r.tenants[r.rng.IntN(len(r.tenants))]
	away := r.tables[r.rng.IntN(len(r.tables))]
	list := []condition{
		{name: "nothing", begin: func() {}, end: func() {}},
		{name: "ClickHouse away", begin: r.clickhouse.Kill, end: func() { r.clickhouse.Start(r.t) }},
		{name: "ClickHouse hangs", begin: func() { r.proxy.Hang(); r.proxy.Cut() }, end: func() { r.proxy.Pass(r.t) }},
		{name: "volume nearly full", begin: func() { r.volume.fill(r.t, volumeSize/50) }, end: func() { r.volume.empty(r.t) }},
		{name: "volume full", begin: func() { r.volume.fill(r.t, 0) }, end: func() { r.volume.empty(r.t) }},
		{name: "folder of " + tenant + " broken", begin: func() { r.breakTenant(tenant) }, end: func() { r.repairTenant(tenant) }},
		{name: "table " + away.String() + " away", begin: func() { r.rename(away, "") }, end: func() { r.rename(away, "away_") }},
	}
	if r.volume.freezes {
		list = append(list, condition{name: "volume hangs", begin: func() { r.volume.freeze(r.t) }, end: r.volume.thaw, alone: true})
	}
	r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (r *rig) events() []event {
	list := []event{
		{"server killed", func() { r.server.Kill(); r.start() }},
		{"server killed again", func() { r.server.Kill(); r.start(); r.server.Kill(); r.start() }},
		{"server stopped", r.stopServer},
		{"server paused", r.pauseServer},
		{"connections to ClickHouse reset", r.proxy.Cut},
		{"ClickHouse killed", func() { r.clickhouse.Kill(); r.clickhouse.Start(r.t) }},
		{"settings rewritten", r.rewriteSettings},
		{"server killed, a file damaged", func() { r.server.Kill(); r.damageFile(true); r.start() }},
		{"a file damaged in use", func() { r.damageFile(false) }},
	}
	r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// torment breaks one thing after the other, every one of them at least once,
// and repairs it, until the time is over.
func (r *rig) torment(until time.Time) {
	var events []event
	for first := true; first || time.Now().Before(until); first = false {
		for _, c := range r.conditions() {
			if len(events) == 0 {
				events = r.events()
			}
			r.say("%s", c.name)
			r.disruptions++
			c.begin()
			r.carryOn()
			if c.alone {
				c.end()
				continue
			}
			r.say("%s, %s", c.name, events[0].name)
			r.disruptions++
			events[0].do()
			events = events[1:]
			r.carryOn()
			c.end()
			r.carryOn()
		}
	}
}

// carryOn lets the clients go on for a number of answers, whatever they are,
// or for as long as they get none.
func (r *rig) carryOn() {
	want := r.load.answers.Load() + int64(20+r.rng.IntN(300))
	deadline := time.Now().Add(1500 * time.Millisecond)
	for r.load.answers.Load() < want && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *rig) stopServer() {
	r.server.Signal(syscall.SIGTERM)
	r.server.Wait(r.t, 60*time.Second)
	r.start()
}

// pauseServer stops the process for a moment, as a slow disk, a busy machine
// or a migration to another one does.
func (r *rig) pauseServer() {
	r.server.Signal(syscall.SIGSTOP)
	time.Sleep(time.Duration(200+r.rng.IntN(1000)) * time.Millisecond)
	r.server.Signal(syscall.SIGCONT)
}

func (r *rig) breakTenant(tenant string) {
	file := filepath.Join(r.server.SettingsDir, tenant, "policies.json")
	require.NoError(r.t, os.WriteFile(file, []byte(`{"tables":`), 0o600))
	require.Equal(r.t, http.StatusUnprocessableEntity, r.reload(tenant))
}

func (r *rig) repairTenant(tenant string) {
	r.writeTenant(tenant)
	require.Equal(r.t, http.StatusOK, r.reload(tenant))
}

func (r *rig) rewriteSettings() {
	for _, tenant := range r.tenants {
		r.writeTenant(tenant)
	}
	r.server.Ops(r.t, http.MethodPost, "/v1/ops/settings/reload", "")
}

// rename moves a table away, or back from where it is.
func (r *rig) rename(tb *table, from string) {
	away := tb.database() + ".`away_" + tb.name + "`"
	if from == "" {
		r.clickhouse.Must(r.t, "RENAME TABLE "+tb.sql()+" TO "+away)
		return
	}
	r.clickhouse.Must(r.t, "RENAME TABLE "+away+" TO "+tb.sql())
}
