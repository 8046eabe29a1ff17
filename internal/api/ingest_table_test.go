package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATableThatTakesNoInsertIsRefusedByItsEngine(t *testing.T) {
	rig := newRig(t, writerPolicy)
	rig.tables["pages"].Engine = "View"
	url := rig.serve(t)
	a := send(t, "POST", url+"/v1/ingest?table=pages", single, "Content-Type", "application/json")
	require.Equal(t, 400, a.status, a.body)
	require.Equal(t, "table.not_writable", a.json(t)["code"])
	require.Equal(t, "View", a.json(t)["engine"])
	require.Contains(t, a.body, "its engine is View")
	require.Zero(t, rig.rows())

	rig.tables["pages"].Engine = "MaterializedView"
	a = send(t, "POST", url+"/v1/ingest?table=pages", single, "Content-Type", "application/json")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, 1, rig.rows())
}
