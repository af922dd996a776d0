package tablestore.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Plans each occurrence of a table in a query by itself, when Spark optimizes the query.
 *
 * Spark plans a Python source once for all queries and all occurrences of a relation, by the conditions of the last
 * of them. This rule runs at the end of the optimizer. It asks the engine for a frame with the columns and conditions
 * of an occurrence, and puts the optimized plan of that frame in its place. What pins the snapshots of a query is the
 * map of its tracker, which its subqueries share. `query_planning.py` compiles and installs this class.
 */
public final class TablePlanning extends Rule {
    private static final Map PINS = new WeakHashMap();
    private static final ObjectMapper JSON = new ObjectMapper();
    private String source;
    private BiFunction planner;

    public TablePlanning() {}

    /**
     * Add the rule to a session, in place of one that is there. `planner` takes a request as JSON and the pins of
     * the query, and gives a frame, or the text of an error.
     */
    public void install(SparkSession session, String source, BiFunction planner) {
        this.source = source;
        this.planner = planner;
        List rules = new ArrayList();
        Iterator others = list(session.experimental().extraOptimizations()).iterator();
        while (others.hasNext()) {
            Object other = others.next();
            if (!other.getClass().getName().equals(getClass().getName())) rules.add(other);
        }
        rules.add(this);
        session.experimental().extraOptimizations_$eq(seq(rules));
    }

    public TreeNode apply(TreeNode plan) {
        return walk((LogicalPlan) plan);
    }

    private LogicalPlan walk(LogicalPlan plan) {
        LogicalPlan below = plan;
        if (below instanceof Project) below = ((Project) below).child();
        if (below instanceof Filter) below = ((Filter) below).child();
        if (isOurs(below)) return planned(plan, (DataSourceV2ScanRelation) below);
        List children = new ArrayList();
        boolean changed = false;
        Iterator each = list(plan.children()).iterator();
        while (each.hasNext()) {
            LogicalPlan child = (LogicalPlan) each.next();
            LogicalPlan walked = walk(child);
            changed |= walked != child;
            children.add(walked);
        }
        return changed ? (LogicalPlan) plan.withNewChildren(seq(children)) : plan;
    }

    /** Whether it is a scan of the source that is not planned yet. */
    private boolean isOurs(LogicalPlan plan) {
        if (!(plan instanceof DataSourceV2ScanRelation)) return false;
        DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
        Table table = scan.relation().table();
        boolean ours = table.name().equalsIgnoreCase(source) || !optionsOf(table).isEmpty();
        return table instanceof PythonTable && ours && !scan.relation().options().containsKey("splits");
    }

    /**
     * The options that a table of `LakeCatalog` has by its name; none of another table. They may hold secrets, so
     * they are no properties, which DESCRIBE shows. That class is of another loader, hence by reflection.
     */
    private static Map optionsOf(Table table) {
        try {
            Field options = table.getClass().getDeclaredField("options");
            options.setAccessible(true);
            return (Map) options.get(table);
        } catch (ReflectiveOperationException e) {
            return new HashMap();
        }
    }

    /** `top` (a scan, with a filter and a projection upon it or without) as the engine plans it. */
    private LogicalPlan planned(LogicalPlan top, DataSourceV2ScanRelation scan) {
        Project project = top instanceof Project ? (Project) top : null;
        LogicalPlan below = project == null ? top : project.child();
        Expression condition = below instanceof Filter ? ((Filter) below).condition() : null;
        List attributes = list(scan.output());
        if (project != null) {
            AttributeSet needed = project.references();
            if (condition != null) needed = needed.$plus$plus(condition.references());
            attributes = new ArrayList();
            Iterator output = list(scan.output()).iterator();
            while (output.hasNext()) {
                Attribute attribute = (Attribute) output.next();
                if (needed.contains(attribute)) attributes.add(attribute);
            }
        }
        Dataset frame = frame(scan, attributes, condition);
        LogicalPlan plan = named(attributes, frame.queryExecution().analyzed());
        boolean filterInside = condition == null || isPlain(condition);
        boolean projectInside = project != null && filterInside && arePlain(list(project.projectList()));
        if (condition != null && filterInside) plan = new Filter(condition, plan);
        if (projectInside) plan = new Project(project.projectList(), plan);
        List shown = list(plan.output());
        plan = named(shown, (LogicalPlan) frame.sparkSession().sessionState().optimizer().execute(plan));
        if (condition != null && !filterInside) plan = new Filter(condition, plan);
        return project == null || projectInside ? plan : new Project(project.projectList(), plan);
    }

    private Dataset frame(DataSourceV2ScanRelation scan, List attributes, Expression condition) {
        List names = new ArrayList();
        Iterator each = attributes.iterator();
        while (each.hasNext()) names.add(((Attribute) each.next()).name());
        List conditions = new ArrayList();
        if (condition != null) describeAll(condition, conditions);
        Map request = new HashMap();
        Map options = new HashMap(optionsOf(scan.relation().table()));
        options.putAll(scan.relation().options());
        request.put("options", options);
        request.put("schema", scan.relation().schema().json());
        request.put("columns", names);
        request.put("conditions", conditions);
        Object answer;
        try {
            answer = planner.apply(JSON.writeValueAsString(request), pins());
        } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
        if (answer instanceof Dataset) return (Dataset) answer;
        throw new IllegalArgumentException(String.valueOf(answer));
    }

    private static Map pins() {
        Option tracker = QueryPlanningTracker.get();
        if (tracker.isEmpty()) return new HashMap();
        synchronized (PINS) {
            Map pins = (Map) PINS.get(tracker.get());
            if (pins == null) {
                pins = new HashMap();
                PINS.put(tracker.get(), pins);
            }
            return pins;
        }
    }

    /** `plan` with its columns named, by position, as the attributes are. */
    private static LogicalPlan named(List attributes, LogicalPlan plan) {
        List columns = new ArrayList();
        List output = list(plan.output());
        boolean same = true;
        for (int i = 0; i < output.size(); i++) {
            Attribute have = (Attribute) output.get(i);
            Attribute want = (Attribute) attributes.get(i);
            boolean alike = have.exprId().equals(want.exprId());
            same &= alike;
            columns.add(alike ? (Object) have : new Alias(
                have, want.name(), want.exprId(), want.qualifier(), Option.apply(want.metadata()), seq(new ArrayList())));
        }
        return same ? plan : new Project(seq(columns), plan);
    }

    private static boolean arePlain(List expressions) {
        Iterator each = expressions.iterator();
        while (each.hasNext()) if (!isPlain((Expression) each.next())) return false;
        return true;
    }

    private static boolean isPlain(Expression expression) {
        return expression.deterministic() && !SubqueryExpression$.MODULE$.hasSubquery(expression);
    }

    /** The conjuncts of a condition as lists: the name of an operator and its operands. */
    private static void describeAll(Expression condition, List conjuncts) {
        if (condition instanceof And) {
            describeAll(((And) condition).left(), conjuncts);
            describeAll(((And) condition).right(), conjuncts);
        } else if (isPlain(condition)) {
            conjuncts.add(described(condition));
        }
    }

    private static List described(Expression e) {
        List parts = new ArrayList();
        parts.add(e instanceof InSet ? "In" : e.getClass().getSimpleName());
        if (e instanceof Attribute) {
            parts.add(((Attribute) e).name());
        } else if (e instanceof Literal) {
            value(((Literal) e).value(), parts);
        } else {
            Iterator each = list(e.children()).iterator();
            while (each.hasNext()) parts.add(described((Expression) each.next()));
        }
        if (e instanceof InSet) {
            Iterator each = CollectionConverters.asJava(((InSet) e).hset()).iterator();
            while (each.hasNext()) {
                List literal = new ArrayList();
                literal.add("Literal");
                value(each.next(), literal);
                parts.add(literal);
            }
        }
        return parts;
    }

    /** A value of Spark's as the name of its class and a number, a text or a truth; other values have none. */
    private static void value(Object value, List parts) {
        if (value == null) return;
        parts.add(value.getClass().getSimpleName());
        if (value instanceof Boolean || value instanceof Number) parts.add(value);
        else parts.add(value.toString());
    }

    private static List list(scala.collection.Seq items) {
        return CollectionConverters.asJava(items);
    }

    private static scala.collection.immutable.Seq seq(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }
}
