import jakarta.ws.rs.GET;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.MediaType;

/** The service as a resource of JAX-RS. */
@Path("tradehistory")
public class Rest {
    /** A sale as JSON has it. */
    public static class Report {
        public String symbol;
        public double price;
        public int size;
        public int seq_num;
    }

    @GET
    @Path("/get_last_sale")
    @Produces(MediaType.APPLICATION_JSON)
    public Report get_last_sale(@QueryParam("symbol") String symbol) {
        Report report = new Report();
        report.symbol = symbol;
        report.price = 25.50;
        report.size = 100;
        report.seq_num = 1;
        return report;
    }
}
