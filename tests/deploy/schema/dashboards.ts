// What a dashboard file may hold, in the types that Grafana publishes. Types that the package leaves to plugins outside of it
// (queries, options of annotations) stand here as those plugins read them.
import type { AnnotationQuery, Dashboard, DataQuery, DataSourceRef, FieldConfig, Panel, RowPanel, VariableModel } from '@grafana/schema';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as timeline from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// An enumeration as JSON spells it.
type Spelled<T> = T extends string
  ? `${T}`
  : T extends number
    ? number extends T
      ? number
      : `${T}` extends `${infer N extends number}`
        ? N
        : T
    : T;
type Plain<T> = T extends string | number
  ? Spelled<T>
  : T extends Array<infer Each>
    ? Array<Plain<Each>>
    : T extends object
      ? { [Key in keyof T]: Plain<T[Key]> }
      : T;

interface Asked extends Omit<DataQuery, 'datasource'> {
  datasource?: DataSourceRef;
  editorMode: 'code' | 'builder';
}
interface PromQuery extends Asked {
  expr: string;
  legendFormat?: string;
  instant?: boolean;
  range?: boolean;
  format?: 'time_series' | 'table' | 'heatmap';
  interval?: string;
}
interface SqlQuery extends Asked {
  rawSql: string;
  rawQuery: true;
  format: 'time_series' | 'table';
}
type Of<Kind extends string, Options, Custom> = Omit<Plain<Panel>, 'type' | 'options' | 'fieldConfig' | 'targets'> & {
  type: Kind;
  options: Plain<Options>;
  targets: Array<PromQuery | SqlQuery>;
  fieldConfig: {
    defaults: Omit<Plain<FieldConfig>, 'custom'> & { custom?: Plain<Custom> };
    overrides: Array<{
      matcher: { id: 'byName' | 'byRegexp'; options: string };
      properties: Array<{ id: keyof FieldConfig | `custom.${string & keyof Custom}`; value: unknown }>;
    }>;
  };
};
type Shown =
  | Of<'heatmap', heatmap.Options, heatmap.FieldConfig>
  | Of<'stat', stat.Options, never>
  | Of<'state-timeline', timeline.Options, timeline.FieldConfig>
  | Of<'table', table.Options, table.FieldConfig>
  | Of<'timeseries', timeseries.Options, timeseries.FieldConfig>
  | Plain<RowPanel>;
type Mark = Omit<Plain<AnnotationQuery>, 'target'> & {
  target: PromQuery | SqlQuery;
  titleFormat?: string;
  textFormat?: string;
  tagKeys?: string;
};
export type Board = Omit<Plain<Dashboard>, 'panels' | 'annotations' | 'templating'> & {
  panels: Shown[];
  annotations: { list: Mark[] };
  templating: { list: Array<Plain<VariableModel>> };
};
